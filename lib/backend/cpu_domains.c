// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The machine's topology from sysfs, for the process backend.
 *
 * Each possible CPU has a domain, also in a container without sysfs or with gaps in the CPU
 * numbers. A CPU that sysfs does not show gets a domain of its own, which costs memory and stays
 * correct.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "uapi/hab.h"
#include "lib/backend/cpu_domains.h"

#define CPU_DIR "/sys/devices/system/cpu"

/* The first line of a file; false if there is none. */
static int read_line(const char *path, char *line, int size)
{
	FILE *file = fopen(path, "re");
	int ok;

	if (!file)
		return 0;
	ok = fgets(line, size, file) != NULL;
	fclose(file);
	if (ok)
		line[strcspn(line, "\n")] = '\0';
	return ok;
}

uint32_t hab_topology_nr_cpus(void)
{
	long configured = sysconf(_SC_NPROCESSORS_CONF);
	char line[4096];
	const char *last;
	long highest;

	/* "0-7" or "0,2-5": the last number is the highest. */
	if (read_line(CPU_DIR "/possible", line, sizeof(line)) && *line) {
		last = line + strlen(line);
		while (last > line && last[-1] >= '0' && last[-1] <= '9')
			last--;
		highest = strtol(last, NULL, 10);
		if (highest >= 0 && highest < 1 << 20)
			return highest + 1;
	}
	return configured > 0 ? configured : 1;
}

/* A text that is the same for all CPUs of one domain; empty if unknown. */
static void domain_key(uint32_t kind, uint32_t cpu, char *key, int size)
{
	char path[128];
	uint32_t node, cache;

	*key = '\0';
	switch (kind) {
	case HAB_DOMAIN_CORE:
		snprintf(path, sizeof(path), CPU_DIR "/cpu%u/topology/thread_siblings_list", cpu);
		break;
	case HAB_DOMAIN_LLC:
		/* The last cache in the CPU's list. */
		for (cache = 8; cache; cache--) {
			snprintf(path, sizeof(path), CPU_DIR "/cpu%u/cache/index%u/shared_cpu_list",
				 cpu, cache);
			if (!access(path, R_OK))
				break;
		}
		break;
	case HAB_DOMAIN_PACKAGE:
		snprintf(path, sizeof(path), CPU_DIR "/cpu%u/topology/physical_package_id", cpu);
		break;
	case HAB_DOMAIN_NODE:
		for (node = 0; node < 1024; node++) {
			snprintf(path, sizeof(path), CPU_DIR "/cpu%u/node%u", cpu, node);
			if (!access(path, F_OK)) {
				snprintf(key, size, "%u", node);
				return;
			}
		}
		return;
	default:
		return;
	}
	read_line(path, key, size);
}

void hab_topology_fill(uint32_t kind, uint32_t *domains, uint32_t nr_cpus)
{
	char(*keys)[64];
	uint32_t cpu, other, next = 0;

	for (cpu = 0; cpu < nr_cpus; cpu++)
		domains[cpu] = kind == HAB_DOMAIN_GLOBAL ? 0 : cpu;
	if (kind == HAB_DOMAIN_GLOBAL || kind == HAB_DOMAIN_CPU)
		return;
	keys = calloc(nr_cpus, sizeof(*keys));
	if (!keys)
		return;
	for (cpu = 0; cpu < nr_cpus; cpu++) {
		domain_key(kind, cpu, keys[cpu], sizeof(keys[cpu]));
		for (other = 0; other < cpu; other++) {
			if (*keys[cpu] && !strcmp(keys[cpu], keys[other]))
				break;
		}
		domains[cpu] = other < cpu ? domains[other] : next++;
	}
	free(keys);
}

uint32_t hab_topology_count(uint32_t kind)
{
	uint32_t nr_cpus = hab_topology_nr_cpus();
	uint32_t *domains = calloc(nr_cpus, sizeof(*domains));
	uint32_t cpu, nr = 1;

	if (!domains)
		return nr_cpus;
	hab_topology_fill(kind, domains, nr_cpus);
	/* Numbered without gaps, in the order of the CPUs. */
	for (cpu = 0; cpu < nr_cpus; cpu++) {
		if (domains[cpu] >= nr)
			nr = domains[cpu] + 1;
	}
	free(domains);
	return nr;
}
