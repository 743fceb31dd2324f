// SPDX-License-Identifier: GPL-2.0-only
/*
 * Plugins with a libhab.a of their own: what they leave to threads, children and the C library may
 * be used when they are closed.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "lib/hab.h"
#include "selftests/lib/plugin.h"

#define PLUGIN	"build/tests/plugin.so"
#define ANOTHER "build/tests/another_plugin.so"
#define WAITING "build/tests/waiting_plugin.so"

struct plugin {
	void *library;
	__typeof__(plugin_begin) *begin;
	__typeof__(plugin_work) *work;
	__typeof__(plugin_end) *end;
};

/* NULL: none, else the library. */
static void *find_functions(struct plugin *plugin, void *library)
{
	plugin->library = library;
	if (!library) {
		printf("# %s\n", dlerror());
		return NULL;
	}
	plugin->begin = dlsym(library, "plugin_begin");
	plugin->work = dlsym(library, "plugin_work");
	plugin->end = dlsym(library, "plugin_end");
	return library;
}

static void *open_plugin(struct plugin *plugin, const char *name)
{
	return find_functions(plugin, dlopen(name, RTLD_NOW));
}

struct user {
	struct plugin *plugins;
	int nr, bad;
	pthread_barrier_t used, closed;
};

static void *use(void *argument)
{
	struct user *user = argument;
	int i;

	for (i = 0; i < user->nr; i++)
		user->bad |= user->plugins[i].work();
	pthread_barrier_wait(&user->used);
	pthread_barrier_wait(&user->closed);
	return NULL;
}

/* Of a thread that has used the plugins, and ends when they are closed: 0 if all went well. */
static int outlive(struct plugin *plugins, int nr)
{
	struct user user = { .plugins = plugins, .nr = nr };
	pthread_t thread;
	int i;

	pthread_barrier_init(&user.used, NULL, 2);
	pthread_barrier_init(&user.closed, NULL, 2);
	if (pthread_create(&thread, NULL, use, &user))
		return -1;
	pthread_barrier_wait(&user.used);
	for (i = 0; i < nr; i++) {
		plugins[i].end();
		user.bad |= dlclose(plugins[i].library);
	}
	pthread_barrier_wait(&user.closed);
	return pthread_join(thread, NULL) || user.bad;
}

TEST(a_thread_may_end_after_the_dlclose_of_a_plugin_that_it_used)
{
	struct plugin plugin;

	ASSERT_NE(NULL, open_plugin(&plugin, PLUGIN));
	ASSERT_EQ(0, plugin.begin(0));
	EXPECT_EQ(0, outlive(&plugin, 1));
}

/* Meanwhile the dynamic linker holds its lock. */
TEST(a_librarys_constructor_may_wait_for_a_thread_that_makes_a_heap)
{
	struct plugin plugin;

	ASSERT_NE(NULL, open_plugin(&plugin, WAITING));
	EXPECT_EQ(0, plugin.work());
}

TEST(a_plugin_may_be_opened_and_closed_again)
{
	struct plugin plugin;
	int i;

	for (i = 0; i < 3; i++) {
		ASSERT_NE(NULL, open_plugin(&plugin, PLUGIN));
		ASSERT_EQ(0, plugin.begin(0));
		EXPECT_EQ(0, plugin.work());
		EXPECT_EQ(0, outlive(&plugin, 1));
	}
}

TEST(two_plugins_may_have_a_library_each)
{
	struct plugin plugins[2];

	ASSERT_NE(NULL, open_plugin(&plugins[0], PLUGIN));
	ASSERT_NE(NULL, open_plugin(&plugins[1], ANOTHER));
	ASSERT_EQ(0, plugins[0].begin(0));
	ASSERT_EQ(0, plugins[1].begin(0));
	EXPECT_EQ(0, outlive(plugins, 2));
}

TEST(a_heap_and_its_handler_outlive_the_dlclose_and_a_fork)
{
	struct plugin plugin;
	int status;
	pid_t pid;

	ASSERT_NE(NULL, open_plugin(&plugin, PLUGIN));
	ASSERT_EQ(0, plugin.begin(0));
	EXPECT_EQ(0, plugin.work());
	EXPECT_EQ(0, dlclose(plugin.library));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		_exit(plugin.work() ? 1 : 42);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(42, WEXITSTATUS(status));
	EXPECT_EQ(0, plugin.work());
	plugin.end();
}

static int count_threads(void)
{
	DIR *folder = opendir("/proc/self/task");
	int nr = -2; /* "." and ".." */

	while (folder && readdir(folder))
		nr++;
	closedir(folder);
	return nr;
}

TEST(the_thread_that_trims_ends_after_the_dlclose)
{
	struct plugin plugin;

	ASSERT_NE(NULL, open_plugin(&plugin, PLUGIN));
	ASSERT_EQ(0, plugin.begin(HAB_HEAP_TRIM_THREAD));
	EXPECT_EQ(0, plugin.work());
	EXPECT_EQ(2, count_threads());
	plugin.end();
	EXPECT_EQ(0, dlclose(plugin.library));
	while (count_threads() > 1)
		usleep(1000);
}

TEST(a_plugin_that_has_made_no_heap_is_unloaded)
{
	struct plugin plugin;

	ASSERT_NE(NULL, open_plugin(&plugin, PLUGIN));
	EXPECT_EQ(0, dlclose(plugin.library));
	EXPECT_EQ(NULL, dlopen(PLUGIN, RTLD_NOW | RTLD_NOLOAD));
}

TEST(in_a_namespace_of_dlmopen_there_is_no_heap)
{
	struct plugin plugin;

	ASSERT_NE(NULL, find_functions(&plugin, dlmopen(LM_ID_NEWLM, PLUGIN, RTLD_NOW)));
	EXPECT_EQ(-EOPNOTSUPP, plugin.begin(0));
	EXPECT_EQ(0, dlclose(plugin.library));
}

/* A folder for links to the plugins, which is the working directory and this program's rpath. */
FIXTURE(links)
{
	char folder[32];
	char *plugin, *another;
};

FIXTURE_SETUP(links)
{
	self->plugin = realpath(PLUGIN, NULL);
	self->another = realpath(ANOTHER, NULL);
	ASSERT_NE(NULL, self->plugin);
	ASSERT_NE(NULL, self->another);
	strcpy(self->folder, "/tmp/hab-plugins-XXXXXX");
	ASSERT_NE(NULL, mkdtemp(self->folder));
	ASSERT_EQ(0, chdir(self->folder));
	ASSERT_EQ(0, symlink(self->plugin, "linked.so"));
}

FIXTURE_TEARDOWN(links)
{
	unlink("linked.so");
	rmdir(self->folder);
	free(self->plugin);
	free(self->another);
}

TEST_F(links, a_plugin_whose_file_is_gone_may_be_closed)
{
	struct plugin plugin;

	ASSERT_NE(NULL, open_plugin(&plugin, "./linked.so"));
	ASSERT_EQ(0, unlink("linked.so"));
	ASSERT_EQ(0, plugin.begin(0));
	EXPECT_EQ(0, outlive(&plugin, 1));
}

TEST_F(links, a_plugin_that_is_found_by_the_path_of_another_may_be_closed)
{
	struct plugin plugin, replaced;

	ASSERT_NE(NULL, open_plugin(&replaced, "./linked.so"));
	ASSERT_EQ(0, unlink("linked.so"));
	ASSERT_EQ(0, symlink(self->another, "linked.so"));
	ASSERT_NE(NULL, open_plugin(&plugin, "linked.so"));
	ASSERT_NE(plugin.library, replaced.library);
	ASSERT_EQ(0, plugin.begin(0));
	EXPECT_EQ(0, outlive(&plugin, 1));
}

TEST_HARNESS_MAIN
