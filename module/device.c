// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/hab: commands and mappings. One open file is at most one heap.
 *
 * Running ioctls and mappings hold the file. So release() runs when nothing else can reach the
 * heap, in any order of close, unmap, fork and exit.
 */
#include <linux/compat.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "module/compat.h"
#include "module/device.h"
#include "module/heap.h"
#include "module/kfunc.h"
#include "module/listeners.h"
#include "module/sysfs.h"
#include "module/telemetry.h"

/**
 * struct hab_file - an open file
 * @lock: creation of the heap and the @mapped flags
 * @heap: NULL until HAB_IOC_CREATE; release store there pairs with the acquire
 *	load in file_heap()
 * @mapped: areas that were mapped once: info, words, arena
 */
struct hab_file {
	struct mutex lock;
	struct hab_dev_heap *heap;
	bool mapped[3];
};

static struct hab_dev_heap *file_heap(struct file *filp)
{
	struct hab_file *file = filp->private_data;

	/* Pairs with the release store in ioctl_create(). */
	return smp_load_acquire(&file->heap);
}

static int hab_open(struct inode *inode, struct file *filp)
{
	struct hab_file *file = kzalloc(sizeof(*file), GFP_KERNEL_ACCOUNT);

	if (!file)
		return -ENOMEM;
	mutex_init(&file->lock);
	filp->private_data = file;
	return nonseekable_open(inode, filp);
}

static int hab_release(struct inode *inode, struct file *filp)
{
	struct hab_file *file = filp->private_data;

	if (file->heap)
		hab_telemetry_end_heap(file->heap->process);
	hab_dev_heap_destroy(file->heap);
	mutex_destroy(&file->lock);
	kfree(file);
	return 0;
}

/*
 * Reads an extensible struct whose first member is its __u32 size. A shorter struct of an older
 * program, at least of @first bytes, is filled up with zeros. A longer one of a newer program is
 * accepted if its tail is zero.
 */
static int read_struct(void *dst, size_t ksize, size_t first, void __user *arg, u32 *usize)
{
	if (get_user(*usize, (u32 __user *)arg))
		return -EFAULT;
	if (*usize < first)
		return -EINVAL;
	if (*usize > PAGE_SIZE)
		return -E2BIG;
	return copy_struct_from_user(dst, ksize, arg, *usize);
}

/* Writes as much of the struct as the user's version has. */
static int write_struct(void __user *arg, const void *src, size_t ksize, u32 usize)
{
	return copy_to_user(arg, src, min_t(size_t, ksize, usize)) ? -EFAULT : 0;
}

static long ioctl_version(void __user *arg)
{
	struct hab_ioc_version version;
	u32 usize;
	int err;

	err = read_struct(&version, sizeof(version), HAB_VERSION_SIZE_VER0, arg, &usize);
	if (err)
		return err;
	version.abi = HAB_ABI_VERSION;
	version.nr_cpus = nr_cpu_ids;
	version.features = HAB_FEATURE_REFILL2 | HAB_FEATURE_REPORT2 | HAB_FEATURE_WIPED |
			   (hab_kfunc_ready() ? HAB_FEATURE_BTF : 0);
	return write_struct(arg, &version, sizeof(version), usize);
}

/*
 * The user's memory is written before @lock is taken: a fault takes the mmap lock, and hab_mmap()
 * takes @lock while it holds that.
 */
static long ioctl_create(struct hab_file *file, void __user *arg)
{
	struct hab_ioc_create create;
	struct hab_dev_heap *heap;
	u32 usize;
	int err;

	err = read_struct(&create, sizeof(create), HAB_CREATE_SIZE_VER0, arg, &usize);
	if (err)
		return err;
	if (READ_ONCE(file->heap))
		return -EBUSY;
	heap = hab_dev_heap_create(&create);
	if (IS_ERR(heap))
		return PTR_ERR(heap);
	err = write_struct(arg, &create, sizeof(create), usize);
	if (err)
		goto destroy;
	mutex_lock(&file->lock);
	if (file->heap)
		err = -EBUSY;
	else
		smp_store_release(&file->heap, heap); /* pairs with file_heap() */
	mutex_unlock(&file->lock);
	if (err)
		goto destroy;
	hab_telemetry_heap(heap->id, heap->name);
	return 0;

destroy:
	hab_dev_heap_destroy(heap);
	return err;
}

static int refill_step(struct hab_dev_heap *heap, struct hab_ioc_refill *refill,
		       struct hab_dev_refill *steps)
{
	int err;

	preempt_disable();
	err = hab_dev_heap_refill(heap, refill, steps);
	/* Still on that CPU: the event's CPU is the refill's. */
	if (!err && refill->granted_bytes)
		hab_telemetry_refill(heap->process, heap->id, heap->name,
				     steps->counted_bytes, refill, steps->dropped_bytes);
	preempt_enable();
	return err;
}

static long ioctl_refill(struct hab_dev_heap *heap, void __user *arg)
{
	struct hab_ioc_return give = { .size = sizeof(give) };
	struct hab_dev_refill steps = { 0 };
	struct hab_ioc_refill refill;
	u32 usize;
	int err;

	err = read_struct(&refill, sizeof(refill), HAB_REFILL_SIZE_VER0, arg, &usize);
	if (err)
		return err;
	do
		err = refill_step(heap, &refill, &steps);
	while (err == -ENOMEM && refill.min_bytes <= heap->info->arena_bytes &&
	       hab_dev_heap_collect(heap, &steps));
	hab_dev_heap_end_collect(heap, &steps);
	if (err)
		return err;
	err = write_struct(arg, &refill, sizeof(refill), usize);
	if (!err)
		return 0;
	/* The caller did not get the address of the chunk, so it cannot return it. */
	give.offset = refill.chunk_offset;
	give.bytes = refill.chunk_bytes;
	hab_dev_heap_return(heap, &give);
	return err;
}

static long ioctl_stats(struct hab_dev_heap *heap, void __user *arg)
{
	struct hab_ioc_stats stats;
	u32 usize;
	int err;

	err = read_struct(&stats, sizeof(stats), HAB_STATS_SIZE_VER0, arg, &usize);
	if (err)
		return err;
	if (stats.flags)
		return -EINVAL;
	hab_dev_heap_stats(heap, &stats);
	return write_struct(arg, &stats, sizeof(stats), usize);
}

static long ioctl_return(struct hab_dev_heap *heap, void __user *arg)
{
	struct hab_ioc_return give;
	u32 usize;
	int err;

	err = read_struct(&give, sizeof(give), HAB_RETURN_SIZE_VER0, arg, &usize);
	if (err)
		return err;
	return hab_dev_heap_return(heap, &give);
}

static long ioctl_report(struct hab_dev_heap *heap, void __user *arg)
{
	struct hab_ioc_report report;
	u64 frames[HAB_STACK_DEPTH];
	bool is_offered, next_is_kept;
	u32 usize;
	int err;

	err = read_struct(&report, sizeof(report), HAB_REPORT_SIZE_VER0, arg, &usize);
	if (err)
		return err;
	/* An older library: most likely it has drawn with the interval that it sees. */
	if (usize == HAB_REPORT_SIZE_VER0 && report.kind == HAB_EVENT_SAMPLE)
		report.interval = READ_ONCE(heap->info->sampling_interval);
	if (report.nr_frames > HAB_STACK_DEPTH)
		return -EINVAL;
	if (copy_from_user(frames, u64_to_user_ptr(report.frames),
			   report.nr_frames * sizeof(frames[0])))
		return -EFAULT;
	err = hab_listeners_report(heap, &report, frames, &is_offered, &next_is_kept);
	if (err)
		return err;
	if (report.kind == HAB_EVENT_SAMPLE && is_offered) {
		hab_telemetry_sample(heap->process,
				     min(report.interval, HAB_SAMPLING_INTERVAL_MAX));
		hab_dev_heap_show_sampling(heap, next_is_kept);
	}
	return write_struct(arg, &report, sizeof(report), usize);
}

static long ioctl_stack(void __user *arg)
{
	struct hab_stack_event event;
	struct hab_ioc_stack stack;
	u32 usize;
	int err;

	err = read_struct(&stack, sizeof(stack), HAB_STACK_SIZE_VER0, arg, &usize);
	if (err)
		return err;
	if (!stack.sample_id || !stack.nr_frames || stack.nr_frames > HAB_STACK_DEPTH)
		return -EINVAL;
	memset(&event, 0, sizeof(event));
	event.sample_id = stack.sample_id;
	event.nr_frames = stack.nr_frames;
	if (copy_from_user(event.frames, u64_to_user_ptr(stack.frames),
			   stack.nr_frames * sizeof(u64)))
		return -EFAULT;
	hab_telemetry_stack(&event);
	return 0;
}

static long hab_ioctl(struct file *filp, unsigned int command, unsigned long argument)
{
	struct hab_dev_heap *heap = file_heap(filp);
	void __user *arg = (void __user *)argument;

	switch (command) {
	case HAB_IOC_VERSION:
		return ioctl_version(arg);
	case HAB_IOC_CREATE:
	case HAB_IOC_REFILL:
	case HAB_IOC_RESET:
	case HAB_IOC_STATS:
	case HAB_IOC_STACK:
	case HAB_IOC_RETURN:
	case HAB_IOC_REPORT:
		break;
	default:
		return -ENOTTY;
	}
	/* So a file that is open for reading only never has a heap. */
	if (!(filp->f_mode & FMODE_WRITE))
		return -EBADF;
	if (command == HAB_IOC_CREATE)
		return ioctl_create(filp->private_data, arg);
	if (!heap)
		return -EOPNOTSUPP;
	switch (command) {
	case HAB_IOC_REFILL:
		return ioctl_refill(heap, arg);
	case HAB_IOC_STATS:
		return ioctl_stats(heap, arg);
	case HAB_IOC_STACK:
		return ioctl_stack(arg);
	case HAB_IOC_RETURN:
		return ioctl_return(heap, arg);
	case HAB_IOC_REPORT:
		return ioctl_report(heap, arg);
	default: /* HAB_IOC_RESET */
		if (argument)
			return -EINVAL;
		hab_dev_heap_reset(heap);
		return 0;
	}
}

/*
 * The words in a child by fork(), which the kernel wipes there: zeros, that are no heap's. So the
 * child takes no chunk of its parent's, and does not fault.
 */
static vm_fault_t wiped_fault(struct vm_fault *vmf)
{
	vmf->page = alloc_page(GFP_HIGHUSER | __GFP_ACCOUNT | __GFP_ZERO);
	return vmf->page ? 0 : VM_FAULT_OOM;
}

static const struct vm_operations_struct wiped_ops = { .fault = wiped_fault };

/*
 * Kernel memory: shared, never executable. MAP_SHARED sets VM_MAYSHARE on a file that is open for
 * reading only, too.
 */
static int map_kernel(struct vm_area_struct *vma, void *area, size_t bytes, bool writable)
{
	size_t offset;
	int err = 0;

	if (vma->vm_end - vma->vm_start != bytes || !(vma->vm_flags & VM_MAYSHARE) ||
	    (vma->vm_flags & VM_EXEC))
		return -EINVAL;
	if (!writable && (vma->vm_flags & VM_WRITE))
		return -EACCES;
	vm_flags_mod(vma, VM_DONTEXPAND | VM_DONTDUMP | (writable ? VM_WIPEONFORK : 0),
		     VM_MAYEXEC | (writable ? 0 : VM_MAYWRITE));
	if (writable)
		vma->vm_ops = &wiped_ops;
	/* remap_vmalloc_range() refuses memory that a cgroup is charged for. */
	for (offset = 0; offset < bytes && !err; offset += PAGE_SIZE)
		err = vm_insert_page(vma, vma->vm_start + offset, vmalloc_to_page(area + offset));
	return err;
}

/*
 * The arena is plain anonymous memory, as a private mapping of /dev/zero: swap, memcg, huge pages,
 * NUMA first touch and copy on write after fork work as for any memory of the process.
 */
static int map_arena(struct vm_area_struct *vma, u64 bytes)
{
	if (vma->vm_end - vma->vm_start != bytes || (vma->vm_flags & VM_MAYSHARE))
		return -EINVAL;
	vma_set_anonymous(vma);
	return 0;
}

static int hab_mmap(struct file *filp, struct vm_area_struct *vma)
{
	struct hab_file *file = filp->private_data;
	struct hab_dev_heap *heap = file_heap(filp);
	u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT;
	unsigned int area;
	int err;

	if (offset == HAB_MAP_INFO)
		area = 0;
	else if (offset == HAB_MAP_WORDS)
		area = 1;
	else if (offset == HAB_MAP_ARENA)
		area = 2;
	else
		return -EINVAL;
	if (!heap)
		return -EOPNOTSUPP;

	mutex_lock(&file->lock);
	if (file->mapped[area])
		err = -EBUSY;
	else if (area == 0)
		err = map_kernel(vma, heap->info, heap->info_bytes, false);
	else if (area == 1)
		err = map_kernel(vma, heap->books.words, heap->words_bytes, true);
	else
		err = map_arena(vma, heap->info->arena_bytes);
	if (!err)
		file->mapped[area] = true;
	mutex_unlock(&file->lock);
	return err;
}

/* The kernel asks whoever reads it for the right to look into the process. */
static void hab_show_fdinfo(struct seq_file *seq, struct file *filp)
{
	struct hab_dev_heap *heap = file_heap(filp);

	if (heap)
		hab_dev_heap_show(heap, seq);
}

static const struct file_operations hab_fops = {
	.owner = THIS_MODULE,
	.open = hab_open,
	.release = hab_release,
	.unlocked_ioctl = hab_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = hab_mmap,
	.show_fdinfo = hab_show_fdinfo,
};

static struct miscdevice hab_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "hab",
	.fops = &hab_fops,
	.groups = hab_sysfs_groups,
	.mode = 0660,
};

/* Programs are built with these sizes: a new field is a new version. */
static void check_sizes(void)
{
	BUILD_BUG_ON(sizeof(struct hab_ioc_version) != HAB_VERSION_SIZE_VER0);
	BUILD_BUG_ON(sizeof(struct hab_ioc_create) != HAB_CREATE_SIZE_VER0);
	BUILD_BUG_ON(offsetofend(struct hab_ioc_refill, reserved) != HAB_REFILL_SIZE_VER0);
	BUILD_BUG_ON(sizeof(struct hab_ioc_refill) != HAB_REFILL_SIZE_VER1);
	BUILD_BUG_ON(sizeof(struct hab_ioc_stack) != HAB_STACK_SIZE_VER0);
	BUILD_BUG_ON(sizeof(struct hab_ioc_stats) != HAB_STATS_SIZE_VER0);
	BUILD_BUG_ON(sizeof(struct hab_ioc_return) != HAB_RETURN_SIZE_VER0);
	BUILD_BUG_ON(offsetofend(struct hab_ioc_report, tag) != HAB_REPORT_SIZE_VER0);
	BUILD_BUG_ON(sizeof(struct hab_ioc_report) != HAB_REPORT_SIZE_VER1);
}

int hab_device_init(void)
{
	check_sizes();
	return misc_register(&hab_misc);
}

void hab_device_exit(void)
{
	misc_deregister(&hab_misc);
}
