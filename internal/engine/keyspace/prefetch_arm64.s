#include "textflag.h"

// func PrefetchRead(p unsafe.Pointer)
TEXT ·PrefetchRead(SB), NOSPLIT, $0-8
	MOVD p+0(FP), R0
	PRFM (R0), PLDL1KEEP
	RET

// func PrefetchWrite(p unsafe.Pointer)
TEXT ·PrefetchWrite(SB), NOSPLIT, $0-8
	MOVD p+0(FP), R0
	PRFM (R0), PSTL1KEEP
	RET
