#include "net/tls.h"

const struct tls_layer *const tls_layer = NULL;
