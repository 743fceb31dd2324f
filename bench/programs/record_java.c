// SPDX-License-Identifier: GPL-2.0-only
/*
 * librecord-java.so: records the objects that a thread of a JVM allocates (trace.h has the format).
 *
 *	java -agentpath:.../librecord-java.so[=deaths] -cp ... RecordJavac ...
 *
 * RecordJavac calls begin() and end() in the thread that it records. In between, each object is an
 * event of JVMTI, SampledObjectAlloc with interval 0. Threads that run when the event is enabled
 * lose the rest of their TLAB, so it is enabled before the threads that are recorded start.
 *
 * With "deaths" each object has a tag, and is freed in the trace at the garbage collection that
 * finds it dead. For one thread at a time, and with -XX:+UseSerialGC -Xmn1m.
 */
#include <jvmti.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "RecordJavac.h"
#include "bench/programs/trace.h"

#define MAX_WORDS (1ul << 28) /* reserved, and touched as they are written */

struct recording {
	struct trace_header header;
	uint64_t bytes;
	uint32_t *words;
};

static jvmtiEnv *jvmti;
static bool deaths;
static __thread struct recording *current;

/* Tags of dead objects, until the thread that allocated them goes on. */
static struct {
	pthread_mutex_t lock;
	struct recording *owner;
	uint32_t *numbers;
	size_t nr;
} dead = { .lock = PTHREAD_MUTEX_INITIALIZER };

static uint32_t *reserve(void)
{
	void *words = mmap(NULL, MAX_WORDS * sizeof(uint32_t), PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (words == MAP_FAILED) {
		perror("librecord-java: no address space for a trace");
		exit(1);
	}
	return words;
}

static void add_word(struct recording *recording, uint32_t word)
{
	if (recording->header.words == MAX_WORDS) {
		fprintf(stderr, "librecord-java: a trace has more than %lu events: compile less\n",
			MAX_WORDS);
		exit(1);
	}
	recording->words[recording->header.words++] = word;
}

static void add_frees(struct recording *recording)
{
	size_t i;

	pthread_mutex_lock(&dead.lock);
	for (i = 0; i < dead.nr; i++)
		add_word(recording, TRACE_FREE | dead.numbers[i]);
	recording->header.frees += dead.nr;
	dead.nr = 0;
	pthread_mutex_unlock(&dead.lock);
}

static void JNICALL on_object(jvmtiEnv *env, JNIEnv *jni, jthread thread, jobject object,
			      jclass class, jlong size)
{
	struct recording *recording = current;

	(void)jni, (void)thread, (void)class;
	if (!recording)
		return;
	if (deaths) {
		add_frees(recording);
		/* 0 is no tag. */
		(*env)->SetTag(env, object, (jlong)recording->header.allocations + 1);
	}
	add_word(recording, size < TRACE_MAX ? (uint32_t)size : TRACE_MAX);
	recording->header.allocations++;
	recording->bytes += (uint64_t)size;
}

/* In a thread of the JVM, which may not call JVMTI. */
static void JNICALL on_free(jvmtiEnv *env, jlong tag)
{
	(void)env;
	pthread_mutex_lock(&dead.lock);
	if (dead.owner && dead.nr < MAX_WORDS)
		dead.numbers[dead.nr++] = (uint32_t)(tag - 1);
	pthread_mutex_unlock(&dead.lock);
}

/* The events begin here, before there is a thread to be recorded. */
static void JNICALL on_start(jvmtiEnv *env, JNIEnv *jni, jthread thread)
{
	(void)jni, (void)thread;
	(*env)->SetEventNotificationMode(env, JVMTI_ENABLE, JVMTI_EVENT_SAMPLED_OBJECT_ALLOC, NULL);
	if (deaths)
		(*env)->SetEventNotificationMode(env, JVMTI_ENABLE, JVMTI_EVENT_OBJECT_FREE, NULL);
}

static jint fail(const char *what, jvmtiError error)
{
	fprintf(stderr, "librecord-java: %s: JVMTI error %d; a JDK from 11 on is needed\n", what,
		error);
	return JNI_ERR;
}

JNIEXPORT jint JNICALL Agent_OnLoad(JavaVM *vm, char *options, void *reserved)
{
	jvmtiEventCallbacks callbacks = { .VMInit = on_start,
					  .SampledObjectAlloc = on_object,
					  .ObjectFree = on_free };
	jvmtiCapabilities wanted = { .can_generate_sampled_object_alloc_events = 1 };
	jvmtiError error;

	(void)reserved;
	deaths = options && !strcmp(options, "deaths");
	if (options && *options && !deaths) {
		fprintf(stderr, "librecord-java: unknown option \"%s\": use none or deaths\n",
			options);
		return JNI_ERR;
	}
	wanted.can_tag_objects = wanted.can_generate_object_free_events = deaths;
	if ((*vm)->GetEnv(vm, (void **)&jvmti, JVMTI_VERSION_11))
		return fail("no JVMTI", 0);
	error = (*jvmti)->AddCapabilities(jvmti, &wanted);
	if (error)
		return fail("no events of allocated objects", error);
	error = (*jvmti)->SetHeapSamplingInterval(jvmti, 0);
	if (error)
		return fail("the sampling interval cannot be 0", error);
	error = (*jvmti)->SetEventCallbacks(jvmti, &callbacks, sizeof(callbacks));
	if (error)
		return fail("no callbacks", error);
	(*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, JVMTI_EVENT_VM_INIT, NULL);
	return JNI_OK;
}

/* From now on the calling thread is recorded. */
JNIEXPORT void JNICALL Java_RecordJavac_begin(JNIEnv *jni, jclass class)
{
	struct recording *recording = calloc(1, sizeof(*recording));

	(void)jni, (void)class;
	if (!recording)
		exit(1);
	recording->header = (struct trace_header){ TRACE_MAGIC, TRACE_VERSION, 0, 0, 0 };
	recording->words = reserve();
	if (deaths) {
		pthread_mutex_lock(&dead.lock);
		if (!dead.numbers)
			dead.numbers = reserve();
		dead.owner = recording;
		dead.nr = 0;
		pthread_mutex_unlock(&dead.lock);
	}
	current = recording;
}

/* Keeps @most allocations from the middle, and the frees of these among them. */
static void cut(struct recording *recording, uint64_t most)
{
	uint64_t first = (recording->header.allocations - most) / 2, number = 0, kept = 0, i;
	uint32_t word;

	for (i = 0; number < first + most; i++) {
		word = recording->words[i];
		if (word & TRACE_FREE) {
			if ((word & ~TRACE_FREE) >= first)
				recording->words[kept++] = word - (uint32_t)first;
		} else if (number++ >= first) {
			recording->words[kept++] = word;
		}
	}
	recording->header.words = kept;
	recording->header.allocations = most;
	recording->header.frees = kept - most;
}

static bool write_trace(const struct recording *recording, const char *path)
{
	FILE *file = fopen(path, "wb");
	bool good;

	if (!file)
		return false;
	good = fwrite(&recording->header, sizeof(recording->header), 1, file) == 1 &&
	       fwrite(recording->words, sizeof(uint32_t), recording->header.words, file) ==
		       recording->header.words;
	return !fclose(file) && good;
}

/* Ends it. Returns the bytes of all objects. @path gets the trace, with @most of them if not 0. */
JNIEXPORT jlong JNICALL Java_RecordJavac_end(JNIEnv *jni, jclass class, jstring path, jlong most)
{
	struct recording *recording = current;
	const char *name;
	uint64_t bytes;

	(void)class;
	current = NULL;
	if (!recording)
		return -1;
	if (deaths) {
		add_frees(recording);
		pthread_mutex_lock(&dead.lock);
		dead.owner = NULL;
		pthread_mutex_unlock(&dead.lock);
	}
	bytes = recording->bytes;
	if (most > 0 && recording->header.allocations > (uint64_t)most)
		cut(recording, (uint64_t)most);
	name = (*jni)->GetStringUTFChars(jni, path, NULL);
	if (!name || !write_trace(recording, name)) {
		fprintf(stderr, "librecord-java: %s cannot be written\n", name ? name : "a trace");
		exit(1);
	}
	(*jni)->ReleaseStringUTFChars(jni, path, name);
	munmap(recording->words, MAX_WORDS * sizeof(uint32_t));
	free(recording);
	return (jlong)bytes;
}
