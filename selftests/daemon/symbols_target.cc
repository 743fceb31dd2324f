// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program with functions that habd must name. It prints its pid and the addresses of a stack of
 * its functions, in the form of make_records --addresses, and runs until its standard input ends.
 */
#include <cstdio>
#include <string>
#include <unistd.h>
#include <vector>

namespace target
{
template <typename T> class Store
{
      public:
	static __attribute__((noinline)) void *grow(const std::vector<T> &);
};

template <typename T> void *Store<T>::grow(const std::vector<T> &items)
{
	asm volatile("nop; nop; nop; nop" ::"r"(&items));
	return __builtin_return_address(0);
}

__attribute__((noinline)) void operator+=(Store<std::string> &store, int)
{
	asm volatile("nop; nop; nop; nop" ::"r"(&store));
}

template class Store<std::string>;
} // namespace target

extern "C" __attribute__((noinline)) void plain_function(void)
{
	asm volatile("nop; nop; nop; nop");
}

static __attribute__((noinline)) void hidden_function(void)
{
	asm volatile("nop; nop; nop; nop");
}

/* In the older way of Rust compilers. */
extern "C" void rust_function(void) asm("_ZN6target4rust17h0123456789abcdefE");
extern "C" __attribute__((noinline)) void rust_function(void)
{
	asm volatile("nop; nop; nop; nop");
}

/* Demangled, this name has more than a thousand million letters. */
extern "C" void
hostile_function(void) asm("_Z7hostileISt4pairIiiES0_IS1_S1_ES0_IS2_S2_ES0_IS3_S3_ES0_IS4_S4_ES0_I"
			   "S5_S5_ES0_IS6_S6_ES0_IS7_S7_ES0_IS8_S8_ES0_IS9_S9_ES0_ISA_SA_ES0_ISB_S"
			   "B_ES0_ISC_SC_ES0_ISD_SD_ES0_ISE_SE_ES0_ISF_SF_ES0_ISG_SG_ES0_ISH_SH_ES"
			   "0_ISI_SI_ES0_ISJ_SJ_ES0_ISK_SK_ES0_ISL_SL_ES0_ISM_SM_ES0_ISN_SN_ES0_IS"
			   "O_SO_ES0_ISP_SP_ES0_ISQ_SQ_ES0_ISR_SR_ES0_ISS_SS_ES0_IST_ST_ES0_ISU_SU"
			   "_ES0_ISV_SV_ES0_ISW_SW_ES0_ISX_SX_EEvv");
extern "C" __attribute__((noinline)) void hostile_function(void)
{
	asm volatile("nop; nop; nop; nop");
}

int main()
{
	void *(*grow)(const std::vector<std::string> &) = target::Store<std::string>::grow;
	void (*add)(target::Store<std::string> &, int) = target::operator+=;

	plain_function();
	hidden_function();
	rust_function();
	hostile_function();
	/* Two bytes into each: a place in it both as an instruction and as a return address. */
	printf("%d %lx,%lx,%lx,%lx,%lx,%lx\n", getpid(), (unsigned long)grow + 2,
	       (unsigned long)add + 2, (unsigned long)plain_function + 2,
	       (unsigned long)hidden_function + 2, (unsigned long)rust_function + 2,
	       (unsigned long)hostile_function + 2);
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
