dnl DLOCK_CFLAG(VARIABLE, FLAG, [required])
dnl Appends FLAG to VARIABLE when the compiler takes it; with a third argument, stops when not.
AC_DEFUN([DLOCK_CFLAG], [
	AC_MSG_CHECKING([whether $CC takes $2])
	dlock_saved_CFLAGS=$CFLAGS
	CFLAGS="$CFLAGS -Werror $2"
	AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])],
		[AC_MSG_RESULT([yes]); AS_VAR_APPEND([$1], [" $2"])],
		[AC_MSG_RESULT([no])
		 m4_ifval([$3], [AC_MSG_ERROR([$CC does not take $2])])])
	CFLAGS=$dlock_saved_CFLAGS
])

dnl DLOCK_LDFLAG(VARIABLE, FLAG)
AC_DEFUN([DLOCK_LDFLAG], [
	AC_MSG_CHECKING([whether the linker takes $2])
	dlock_saved_LDFLAGS=$LDFLAGS
	LDFLAGS="$LDFLAGS $2"
	AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])],
		[AC_MSG_RESULT([yes]); AS_VAR_APPEND([$1], [" $2"])],
		[AC_MSG_RESULT([no])])
	LDFLAGS=$dlock_saved_LDFLAGS
])

dnl DLOCK_SANITIZER(SWITCH, NAME, TITLE)
dnl --enable-SWITCH adds NAME to the list $dlock_sanitize.
AC_DEFUN([DLOCK_SANITIZER], [
	AC_ARG_ENABLE([$1],
		[AS_HELP_STRING([--enable-$1], [build with $3])],
		[], [enable_$1=no])
	AS_IF([test "x$enable_$1" = xyes], [dlock_sanitize="$dlock_sanitize${dlock_sanitize:+,}$2"])
])

dnl DLOCK_LIBRARY(VARIABLE, MODULE, DEBIAN, FEDORA)
dnl A library that dlock cannot do without, by pkg-config; the packages that have it.
AC_DEFUN([DLOCK_LIBRARY], [
	PKG_CHECK_MODULES([$1], [$2], [],
		[AC_MSG_ERROR([dlock needs $2, of the package $3 (Debian) or $4 (Fedora); $PKG_CONFIG finds none])])
])

dnl DLOCK_PROGRAM(WORD, LIBRARY, CHECK)
dnl A lock service that is a program of its own, dlock-WORD: --with-WORD, --without-WORD, else where
dnl CHECK sets dlock_found=yes. Sets dlock_WORD to yes or no, and the conditional of that name.
AC_DEFUN([DLOCK_PROGRAM], [
	AC_ARG_WITH([$1],
		[AS_HELP_STRING([--without-$1], [leave out dlock-$1: its URLs are refused])],
		[], [with_$1=auto])
	dlock_found=no
	AS_IF([test "x$with_$1" != xno], [
		$3
		AS_CASE([$with_$1$dlock_found],
			[yesno], [AC_MSG_ERROR([--with-$1 needs $2])],
			[*no], [AC_MSG_WARN([no $2: dlock will refuse servers by $1:// with exit code 78])])
	])
	dlock_$1=$dlock_found
	AM_CONDITIONAL(m4_toupper([$1]), [test "$dlock_found" = yes])
])
