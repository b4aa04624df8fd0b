/* Uses every function of the header; C and C++ compile it without a warning. */
#define OML_FROM_MAIN
#include "everything_oml.h"

int main(int argc, const char **argv)
{
	double d[] = {1};
	int32_t i32[] = {1};
	uint32_t u32[] = {1};
	int64_t i64[] = {1};
	uint64_t u64[] = {1};
	bool b[] = {true};

	if (omlc_init("everything", &argc, argv, NULL) < 0 || oml_register_mps() < 0 || omlc_start() < 0)
		return 1;
	oml_inject_types(g_oml_mps_everything->types, 1.5, "text", -1, 2, -3, 4, "blob", 4, omlc_guid_generate(), true, d, 1, i32, 1, u32, 1,
			 i64, 1, u64, 1, b, 1);
	oml_inject_default(g_oml_mps_everything->default_, 1, false);
	return omlc_close() < 0;
}
