// SPDX-License-Identifier: GPL-2.0-only
/*
 * Domains from the kernel's numbers, of machines that are written as text: a line for each CPU in
 * the order in which they come online, with its number, package, die, cluster, core, node, key of
 * its cache, and the siblings that the kernel knows then.
 */
#include <stdio.h>
#include <string.h>

#include "core/hierarchy/topology.h"
#include "kselftest_harness.h"

#define CPUS 16

static struct hab_place places[CPUS];
static bool known[CPUS][CPUS];

static bool are_siblings(u32 a, u32 b)
{
	return known[a][b];
}

static struct hab_topology topology;

static void add_cpu(const char *line)
{
	char siblings[64] = "", *sibling, *rest = siblings;
	struct hab_place place;
	unsigned long long llc;
	u32 cpu, other;

	if (sscanf(line, "%u %d %d %d %d %d %llu %63[^\n]", &cpu, &place.package, &place.die,
		   &place.cluster, &place.core, &place.node, &llc, siblings) < 7)
		return;
	place.llc = llc;
	memset(place.ids, 0xff, sizeof(place.ids));
	places[cpu] = place;
	while ((sibling = strsep(&rest, ","))) {
		if (sscanf(sibling, "%u", &other) == 1)
			known[cpu][other] = true;
	}
	hab_topology_add(&topology, cpu);
}

/* Adds the CPUs that @text has, to those of before. */
static void add_cpus(const char *text)
{
	for (; text; text = strchr(text, '\n') ? strchr(text, '\n') + 1 : NULL)
		add_cpu(text);
}

static void begin(const char *text)
{
	memset(places, 0xff, sizeof(places));
	memset(known, 0, sizeof(known));
	memset(&topology, 0, sizeof(topology));
	topology.nr_cpus = CPUS;
	topology.places = places;
	topology.are_siblings = are_siblings;
	add_cpus(text);
}

/* The ids of the CPUs, a letter for each; "." has none. */
static const char *ids_of(u32 kind)
{
	static char text[CPUS + 1];
	u32 cpu;

	for (cpu = 0; cpu < CPUS; cpu++)
		text[cpu] = places[cpu].ids[kind] == HAB_DOMAIN_NONE ?
				    '.' :
				    "abcdefghijklmnop"[places[cpu].ids[kind]];
	return text;
}

TEST(threads_of_a_core_of_x86_are_one_core_in_each_package)
{
	/* The second threads have the last numbers, as there; cores begin anew in each package. */
	begin("0 0 0 -1 0 0 1 0\n"
	      "1 0 0 -1 1 0 1 1\n"
	      "2 1 0 -1 0 1 2 2\n"
	      "3 1 0 -1 1 1 2 3\n"
	      "4 0 0 -1 0 0 1 0,4\n"
	      "5 0 0 -1 1 0 1 1,5\n"
	      "6 1 0 -1 0 1 2 2,6\n"
	      "7 1 0 -1 1 1 2 3,7\n");
	EXPECT_STREQ("abcdabcd........", ids_of(HAB_DOMAIN_CORE));
	EXPECT_STREQ("aabbaabb........", ids_of(HAB_DOMAIN_LLC));
	EXPECT_STREQ("aabbaabb........", ids_of(HAB_DOMAIN_PACKAGE));
	EXPECT_STREQ("aabbaabb........", ids_of(HAB_DOMAIN_NODE));
	EXPECT_STREQ("aaaaaaaa........", ids_of(HAB_DOMAIN_GLOBAL));
	EXPECT_STREQ("abcdefgh........", ids_of(HAB_DOMAIN_CPU));
}

/* By a device tree: two clusters of four, whose cores have the numbers 0 to 3 each. */
static const char two_clusters[] = "0 0 -1 0 0 0 1 0\n"
				   "1 0 -1 0 1 0 1 1\n"
				   "2 0 -1 0 2 0 1 2\n"
				   "3 0 -1 0 3 0 1 3\n"
				   "4 0 -1 1 0 0 2 4\n"
				   "5 0 -1 1 1 0 2 5\n"
				   "6 0 -1 1 2 0 2 6\n"
				   "7 0 -1 1 3 0 2 7\n";

TEST(cores_with_one_number_in_two_clusters_are_two)
{
	begin(two_clusters);
	EXPECT_STREQ("abcdefgh........", ids_of(HAB_DOMAIN_CORE));
	EXPECT_STREQ("aaaabbbb........", ids_of(HAB_DOMAIN_LLC));
	EXPECT_STREQ("aaaaaaaa........", ids_of(HAB_DOMAIN_PACKAGE));
}

TEST(threads_of_a_core_in_a_cluster_are_one_core)
{
	begin("0 0 -1 0 0 0 1 0\n"
	      "1 0 -1 0 0 0 1 0,1\n"
	      "2 0 -1 1 0 0 2 2\n"
	      "3 0 -1 1 0 0 2 2,3\n");
	EXPECT_STREQ("aabb............", ids_of(HAB_DOMAIN_CORE));
}

TEST(cpus_that_come_later_are_in_the_cores_of_their_siblings_that_went)
{
	/* Each thread is alone when it comes: its sibling is offline, so the kernel knows none. */
	begin("0 0 0 -1 0 0 1 0\n"
	      "1 0 0 -1 1 0 1 1\n"
	      "2 0 0 -1 2 0 1 2\n"
	      "3 0 0 -1 3 0 1 3\n");
	EXPECT_STREQ("abcd............", ids_of(HAB_DOMAIN_CORE));
	add_cpus("7 0 0 -1 3 0 1 7\n"
		 "5 0 0 -1 1 0 1 5\n");
	EXPECT_STREQ("abcd.b.d........", ids_of(HAB_DOMAIN_CORE));
	add_cpus("4 0 0 -1 0 0 1 4\n"
		 "8 0 0 -1 4 0 1 8\n");
	EXPECT_STREQ("abcdab.de.......", ids_of(HAB_DOMAIN_CORE));
}

TEST(three_offline_cores_of_a_cluster_have_no_domains_and_change_none)
{
	begin("0 0 -1 0 0 0 1 0\n"
	      "4 0 -1 1 0 0 2 4\n"
	      "5 0 -1 1 1 0 2 5\n"
	      "6 0 -1 1 2 0 2 6\n"
	      "7 0 -1 1 3 0 2 7\n");
	EXPECT_STREQ("a...bcde........", ids_of(HAB_DOMAIN_CORE));
	add_cpus("1 0 -1 0 1 0 1 1\n");
	EXPECT_STREQ("af..bcde........", ids_of(HAB_DOMAIN_CORE));
	EXPECT_STREQ("aa..bbbb........", ids_of(HAB_DOMAIN_LLC));
}

TEST(without_numbers_cores_are_what_the_kernel_knows)
{
	begin("0 -1 -1 -1 -1 0 1 0\n"
	      "1 -1 -1 -1 -1 0 1 1\n"
	      "2 -1 -1 -1 -1 0 1 0,2\n");
	EXPECT_STREQ("aba.............", ids_of(HAB_DOMAIN_CORE));
	EXPECT_STREQ("aaa.............", ids_of(HAB_DOMAIN_PACKAGE));
}

TEST_HARNESS_MAIN
