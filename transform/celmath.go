package transform

import (
	"errors"
	"math"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// The functions of CEL's math extension that records need, under its names. A number of JSON
// may come as int, uint or double, so each takes all three; a whole number stays one.

// celMathFunctions declares the functions.
func celMathFunctions() []cel.EnvOption {
	whole := func(name string, f func(float64) float64) cel.EnvOption {
		return cel.Function("math."+name,
			cel.Overload("math_"+name+"_double", []*cel.Type{cel.DoubleType}, cel.DoubleType, cel.UnaryBinding(func(v ref.Val) ref.Val {
				return types.Double(f(float64(v.(types.Double))))
			})),
			cel.Overload("math_"+name+"_int", []*cel.Type{cel.IntType}, cel.IntType, cel.UnaryBinding(func(v ref.Val) ref.Val { return v })),
			cel.Overload("math_"+name+"_uint", []*cel.Type{cel.UintType}, cel.UintType, cel.UnaryBinding(func(v ref.Val) ref.Val { return v })))
	}
	extreme := func(name string, sign types.Int) cel.EnvOption {
		var overloads []cel.FunctionOpt
		for _, a := range []*cel.Type{cel.IntType, cel.UintType, cel.DoubleType} {
			for _, b := range []*cel.Type{cel.IntType, cel.UintType, cel.DoubleType} {
				result := cel.DynType
				if a == b {
					result = a
				}
				overloads = append(overloads, cel.Overload("math_"+name+"_"+a.String()+"_"+b.String(), []*cel.Type{a, b}, result,
					cel.BinaryBinding(func(a, b ref.Val) ref.Val { return further(a, b, sign) })))
			}
		}
		return cel.Function("math."+name, overloads...)
	}
	return []cel.EnvOption{
		whole("ceil", math.Ceil), whole("floor", math.Floor), whole("round", math.Round), whole("trunc", math.Trunc),
		cel.Function("math.abs",
			cel.Overload("math_abs_double", []*cel.Type{cel.DoubleType}, cel.DoubleType, cel.UnaryBinding(func(v ref.Val) ref.Val {
				return types.Double(math.Abs(float64(v.(types.Double))))
			})),
			cel.Overload("math_abs_int", []*cel.Type{cel.IntType}, cel.IntType, cel.UnaryBinding(absolute)),
			cel.Overload("math_abs_uint", []*cel.Type{cel.UintType}, cel.UintType, cel.UnaryBinding(func(v ref.Val) ref.Val { return v }))),
		extreme("greatest", 1), extreme("least", -1),
	}
}

var errOverflow = errors.New("the absolute value of the smallest int does not fit into an int")

func absolute(v ref.Val) ref.Val {
	i := v.(types.Int)
	switch {
	case i == math.MinInt64:
		return types.WrapErr(errOverflow)
	case i < 0:
		return -i
	}
	return i
}

// further returns the one of two numbers that lies further in a direction, the first if they
// are equal. A double that is not a number is neither larger nor smaller than any.
func further(a, b ref.Val, sign types.Int) ref.Val {
	order, ok := b.(traits.Comparer).Compare(a).(types.Int)
	if ok && order == sign {
		return b
	}
	return a
}
