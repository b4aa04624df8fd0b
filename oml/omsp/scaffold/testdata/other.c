/* Another file of the same program. */
#include "everything_oml.h"

int other(void);
int other(void)
{
	return oml_inject_default(g_oml_mps_everything->default_, 1, false);
}
