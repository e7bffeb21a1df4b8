/* The lock service etcd, from 3.4 on. It is in the program dlock-etcd alone. */
#pragma once

#include "lock/service.h"

extern const struct lock_service etcd_service;
