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
	return image->at && offset <= image->size && size <= image->size - offset
		       ? image->at + offset
		       : NULL;
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

/* Its dynamic section, so many entries; NULL: there is none. */
static const ElfW(Dyn) * dynamic(const struct image *image, size_t *count)
{
	const ElfW(Phdr) *found = segment(image, PT_DYNAMIC, 0);
	const ElfW(Dyn) *all = found ? part(image, found->p_offset, found->p_filesz) : NULL;

	*count = all ? found->p_filesz / sizeof(*all) : 0;
	return all;
}

/* The names in it, of libraries and versions; a part of the image. */
static struct image names_of(const struct image *image)
{
	size_t count, offset = 0, size = 0;
	const ElfW(Dyn) *all = dynamic(image, &count);

	for (size_t i = 0; i < count; i++) {
		if (all[i].d_tag == DT_STRTAB)
			offset = find_offset(image, all[i].d_un.d_ptr);
		if (all[i].d_tag == DT_STRSZ)
			size = all[i].d_un.d_val;
	}
	return (struct image){part(image, offset, size), size};
}

static bool are_listed(
	const struct image *image, const struct image *names, const struct image *list)
{
	size_t count;
	const ElfW(Dyn) *all = dynamic(image, &count);

	for (size_t i = 0; i < count; i++)
		if (all[i].d_tag == DT_NEEDED && !is_listed(list, text(names, all[i].d_un.d_val)))
			return false;
	return true;
}

/* The greatest number that follows such a word; -1: it is nowhere. */
static long find_number(const struct image *image, const char *word)
{
	const char *at = image->at, *end = at ? at + image->size : NULL;
	size_t length = strlen(word);
	long most = -1;

	while (at && (at = memmem(at, (size_t)(end - at), word, length))) {
		long number = 0;

		for (at += length; at < end && *at >= '0' && *at <= '9' && number < 10000; at++)
			number = number * 10 + (*at - '0');
		most = number > most ? number : most;
	}
	return most;
}

/* The loader says of which glibc it is; an older one than the program was built with refuses it. */
static bool is_new_enough(const struct image *names, const char *loader_path)
{
	struct image loader = image_open(loader_path);
	bool good = find_number(names, "GLIBC_2.") <= find_number(&loader, "release version 2.");

	image_close(&loader);
	return good;
}

bool loadable_at_sight(const char *path)
{
	struct image image = image_open(path), list, names;
	const ElfW(Phdr) * loader;
	bool good = true;

	if (is_program(&image)) {
		list = image_open("/etc/ld.so.cache");
		names = names_of(&image);
		loader = segment(&image, PT_INTERP, 0);
		good = (!loader || is_new_enough(&names, text(&image, loader->p_offset))) &&
		       are_listed(&image, &names, &list);
		image_close(&list);
	}
	image_close(&image);
	return good;
}
