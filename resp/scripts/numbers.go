package scripts

import (
	"math"
	"strconv"
	"time"

	"github.com/weir-counter/weir/api"
	"github.com/weir-counter/weir/resp/argument"
)

// readNumber reads a number that need not be whole, and is finite and at least 0.
func readNumber(arg []byte) (float64, error) {
	f, err := strconv.ParseFloat(argument.View(arg), 64)
	if err != nil || !(f >= 0) || math.IsInf(f, 0) {
		return 0, argument.Wrong(api.CodeInvalidParameter, "argument", "argument "+argument.Clip(arg)+" of a script: must be a number from 0")
	}
	return f, nil
}

// readInts reads numbers as commands of Redis have them.
func readInts(args [][]byte) (numbers [4]int64, err error) {
	for i, arg := range args {
		if numbers[i], err = argument.Int(arg); err != nil {
			return numbers, err
		}
	}
	return numbers, nil
}

// nanoseconds is a time that need not be whole seconds, to the nearest; what no Duration holds is the longest one.
func nanoseconds(seconds float64) time.Duration {
	return time.Duration(min(math.Round(seconds*float64(time.Second)), math.MaxInt64/2))
}

// writeNumber writes a number that need not be whole as Lua's tostring has it: as text, of 14 digits.
func (s *Session) writeNumber(f float64) {
	var digits [32]byte
	s.Out.BulkBytes(strconv.AppendFloat(digits[:0], f, 'g', 14, 64))
}

func (s *Session) writePair(a, b int64) {
	s.Out.Array(2)
	s.Out.Int(a)
	s.Out.Int(b)
}
