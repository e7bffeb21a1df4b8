#include "cli/loadable.h"

#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct image {
	const char *at; /* NULL: none */
	size_t size;
};

static struct image image_open(const char *path)
{
	struct image image = {0};
	struct stat status;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *at;

	if (fd >= 0 && fstat(fd, &status) == 0 && status.st_size > 0) {
		at = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (at != MAP_FAILED)
			image = (struct image){at, (size_t)status.st_size};
	}
	if (fd >= 0)
		close(fd);
	return image;
}

static void image_close(const struct image *image)
{
	if (image->at)
		munmap((void *)image->at, image->size);
}

/* So many bytes of it; NULL: there are not so many. */
static const void *part(const struct image *image, size_t offset, size_t size)
{
	return offset <= image->size && size <= image->size - offset ? image->at + offset : NULL;
}

/* The text there; "": it has no end. */
static const char *text(const struct image *image, size_t offset)
{
	const char *found = part(image, offset, 1);

	return found && memchr(found, '\0', image->size - offset) ? found : "";
}

/* The NUMBERth of its segments that has this type; NULL: there is none. */
static const ElfW(Phdr) * segment(const struct image *image, ElfW(Word) type, size_t number)
{
	const ElfW(Ehdr) *head = part(image, 0, sizeof(*head));
	const ElfW(Phdr) *all = part(image, head->e_phoff, head->e_phnum * sizeof(*all));

	for (size_t i = 0; all && i < head->e_phnum; i++)
		if (all[i].p_type == type && number-- == 0)
			return &all[i];
	return NULL;
}

static bool is_program(const struct image *image)
{
	const ElfW(Ehdr) *head = part(image, 0, sizeof(*head));
	unsigned char own = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32;

	return head && memcmp(head->e_ident, ELFMAG, SELFMAG) == 0 &&
	       head->e_ident[EI_CLASS] == own && head->e_phentsize == sizeof(ElfW(Phdr));
}

/* Where in the file that is what the program has at an address. */
static size_t find_offset(const struct image *image, ElfW(Addr) address)
{
	const ElfW(Phdr) *load = segment(image, PT_LOAD, 0);

	for (size_t i = 1; load; i++) {
		if (address >= load->p_vaddr && address - load->p_vaddr < load->p_filesz)
			return load->p_offset + (address - load->p_vaddr);
		load = segment(image, PT_LOAD, i);
	}
	return image->size;
}

/* The list has each name with a NUL on both sides. */
static bool is_listed(const struct image *list, const char *library)
{
	return list->at && memmem(list->at, list->size, library, strlen(library) + 1);
}

static bool are_listed(const struct image *image, const struct image *list)
{
	const ElfW(Phdr) *segment_of = segment(image, PT_DYNAMIC, 0);
	const ElfW(Dyn) *all =
		segment_of ? part(image, segment_of->p_offset, segment_of->p_filesz) : NULL;
	size_t count = all ? segment_of->p_filesz / sizeof(*all) : 0, names = image->size;

	for (size_t i = 0; i < count; i++)
		if (all[i].d_tag == DT_STRTAB)
			names = find_offset(image, all[i].d_un.d_ptr);
	for (size_t i = 0; i < count; i++)
		if (all[i].d_tag == DT_NEEDED &&
			!is_listed(list, text(image, names + all[i].d_un.d_val)))
			return false;
	return true;
}

bool loadable_at_sight(const char *path)
{
	struct image image = image_open(path), list;
	const ElfW(Phdr) * loader;
	bool good = true;

	if (is_program(&image)) {
		list = image_open("/etc/ld.so.cache");
		loader = segment(&image, PT_INTERP, 0);
		good = (!loader || access(text(&image, loader->p_offset), X_OK) == 0) &&
		       are_listed(&image, &list);
		image_close(&list);
	}
	image_close(&image);
	return good;
}
