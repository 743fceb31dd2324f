// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program that leaks in four places. The compiler inlines all of them into main(). Each place has
 * a mark in its line, which a test looks for.
 */
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace shop {

struct Item {
	char name[200];
};

class Index {
public:
	void add(int number)
	{
		items.push_back(new Item); /* leak: items */
		items.back()->name[0] = static_cast<char>(number);
		if (number % 2)
			remember(number);
	}

private:
	void remember(int number)
	{
		last = new char[1000]; /* leak: remembered */
		last[0] = static_cast<char>(number);
	}

	std::vector<Item *> items;
	char *last;
};

struct Sessions {
	void begin(int number)
	{
		std::string text(300, 'x');

		all[number] = text; /* leak: sessions */
	}

	std::map<int, std::string> &all;
};

/* Its definition has no namespace in the debug information: its declaration has. */
static char *open_page(int number);

} /* namespace shop */

static char *shop::open_page(int number)
{
	char *page = static_cast<char *>(malloc(2000)); /* leak: pages */

	page[0] = static_cast<char>(number);
	return page;
}

char *last_page;

int main()
{
	static shop::Index *index = new shop::Index;
	shop::Sessions sessions = { *new std::map<int, std::string> };

	for (int i = 0; i < 50000; i++) {
		index->add(i);
		sessions.begin(i);
		last_page = shop::open_page(i);
	}
	return 0;
}
