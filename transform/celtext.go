package transform

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// The text functions that programs in CEL know from its strings extension, under its names
// and with its meaning. They are written out because those of the library have no bound on
// what a call makes (text.replace("", text) of a megabyte is a terabyte), change bytes that are
// no UTF-8, and bring tables of languages along, which only its format needs. Positions count
// characters, from 0; a byte that is no UTF-8 is one.

// celMaxParts bounds the elements of a list that a call makes: at 32 bytes each as much as
// celMaxResult.
const celMaxParts = celMaxResult / 32

// celGrows are the functions whose result may be larger than what goes in.
var celGrows = map[string]bool{"replace": true, "split": true, "join": true} //nolint:gochecknoglobals // a table

func celText1[A ref.Val](f func(s string, a A) ref.Val) cel.OverloadOpt {
	return cel.BinaryBinding(func(s, a ref.Val) ref.Val { return f(string(s.(types.String)), a.(A)) })
}

func celText2[A, B ref.Val](f func(s string, a A, b B) ref.Val) cel.OverloadOpt {
	return cel.FunctionBinding(func(args ...ref.Val) ref.Val { return f(string(args[0].(types.String)), args[1].(A), args[2].(B)) })
}

func celText0(f func(s string) string) cel.OverloadOpt {
	return cel.UnaryBinding(func(s ref.Val) ref.Val { return types.String(f(string(s.(types.String)))) })
}

// celTextFunctions declares the functions.
func celTextFunctions() []cel.EnvOption {
	text, number, texts := cel.StringType, cel.IntType, cel.ListType(cel.StringType)
	member := func(id string, result *cel.Type, binding cel.OverloadOpt, args ...*cel.Type) cel.FunctionOpt {
		return cel.MemberOverload(id, args, result, binding)
	}
	return []cel.EnvOption{
		cel.Function("charAt", member("string_char_at_int", text, celText1(charAt), text, number)),
		cel.Function("indexOf",
			member("string_index_of_string", number, celText1(func(s string, sub types.String) ref.Val { return indexOf(s, sub, 0) }), text, text),
			member("string_index_of_string_int", number, celText2(indexOf), text, text, number)),
		cel.Function("lastIndexOf",
			member("string_last_index_of_string", number, celText1(func(s string, sub types.String) ref.Val { return lastIndexOf(s, sub, types.Int(len(s))) }), text, text),
			member("string_last_index_of_string_int", number, celText2(lastIndexOf), text, text, number)),
		cel.Function("join",
			member("list_join", text, cel.UnaryBinding(func(list ref.Val) ref.Val { return join(list, types.String("")) }), texts),
			member("list_join_string", text, cel.BinaryBinding(join), texts, text)),
		cel.Function("lowerAscii", member("string_lower_ascii", text, celText0(func(s string) string { return asciiCase(s, 'A', 'Z') }), text)),
		cel.Function("upperAscii", member("string_upper_ascii", text, celText0(func(s string) string { return asciiCase(s, 'a', 'z') }), text)),
		cel.Function("replace",
			member("string_replace_string_string", text, celText2(func(s string, from, to types.String) ref.Val { return replaceText(s, string(from), string(to), -1) }), text, text, text),
			member("string_replace_string_string_int", text, cel.FunctionBinding(func(args ...ref.Val) ref.Val {
				return replaceText(string(args[0].(types.String)), string(args[1].(types.String)), string(args[2].(types.String)), int(args[3].(types.Int)))
			}), text, text, text, number)),
		cel.Function("reverse", member("string_reverse", text, celText0(reverse), text)),
		cel.Function("split",
			member("string_split_string", texts, celText1(func(s string, by types.String) ref.Val { return split(s, by, -1) }), text, text),
			member("string_split_string_int", texts, celText2(split), text, text, number)),
		cel.Function("substring",
			member("string_substring_int", text, celText1(func(s string, from types.Int) ref.Val {
				return substring(s, from, types.Int(utf8.RuneCountInString(s)))
			}), text, number),
			member("string_substring_int_int", text, celText2(substring), text, number, number)),
		cel.Function("trim", member("string_trim", text, celText0(func(s string) string { return strings.TrimFunc(s, unicode.IsSpace) }), text)),
	}
}

// celTextCosts charges what a call reads and makes as CEL charges its own text functions: one
// for ten characters, and more for the elements of a list. So the limit bounds the memory that
// a loop may fill, too.
func celTextCosts() []cost.TrackerOption {
	charge := func(args []ref.Val, result ref.Val) *uint64 {
		size := 10
		for _, v := range append(slices.Clip(args), result) {
			switch v := v.(type) {
			case types.String:
				size += len(v)
			case traits.Lister:
				n, _ := v.Size().(types.Int)
				size += 40 * int(n)
			}
		}
		units := uint64(size / 10) //nolint:gosec // a length
		return &units
	}
	var options []cost.TrackerOption
	for _, id := range []string{
		"string_char_at_int", "string_index_of_string", "string_index_of_string_int", "string_last_index_of_string", "string_last_index_of_string_int",
		"list_join", "list_join_string", "string_lower_ascii", "string_upper_ascii", "string_replace_string_string", "string_replace_string_string_int",
		"string_reverse", "string_split_string", "string_split_string_int", "string_substring_int", "string_substring_int_int", "string_trim",
	} {
		options = append(options, cost.OverloadTracker(id, charge))
	}
	return options
}

// byteAt returns where character n begins, or the end if there are just n.
func byteAt(s string, n types.Int) (int, bool) {
	if n < 0 || int64(n) > int64(len(s)) {
		return 0, false
	}
	at := 0
	for ; n > 0; n-- {
		if at == len(s) {
			return 0, false
		}
		_, size := utf8.DecodeRuneInString(s[at:])
		at += size
	}
	return at, true
}

func outOfRange(n types.Int, s string) ref.Val {
	return types.NewErr("the position %d is outside of the text, which has %d characters", n, utf8.RuneCountInString(s))
}

func charAt(s string, n types.Int) ref.Val {
	at, ok := byteAt(s, n)
	if !ok {
		return outOfRange(n, s)
	}
	_, size := utf8.DecodeRuneInString(s[at:])
	return types.String(s[at : at+size])
}

func substring(s string, from, to types.Int) ref.Val {
	begin, ok := byteAt(s, from)
	if !ok {
		return outOfRange(from, s)
	}
	if to < from {
		return types.NewErr("the text from position %d to %d is none: the second is smaller", from, to)
	}
	length, ok := byteAt(s[begin:], to-from)
	if !ok {
		return outOfRange(to, s)
	}
	return types.String(s[begin : begin+length])
}

// indexOf finds sub at or behind a position; one that is too large finds nothing.
func indexOf(s string, sub types.String, from types.Int) ref.Val {
	begin, ok := byteAt(s, from)
	switch {
	case from < 0:
		return outOfRange(from, s)
	case !ok:
		return types.Int(-1)
	}
	at := strings.Index(s[begin:], string(sub))
	if at < 0 {
		return types.Int(-1)
	}
	return from + types.Int(utf8.RuneCountInString(s[begin:begin+at]))
}

// lastIndexOf finds the last sub that begins at a position or before it.
func lastIndexOf(s string, sub types.String, last types.Int) ref.Val {
	if last < 0 {
		return outOfRange(last, s)
	}
	end, ok := byteAt(s, last)
	if !ok {
		end = len(s)
	}
	at := strings.LastIndex(s[:min(end+len(sub), len(s))], string(sub))
	if at < 0 {
		return types.Int(-1)
	}
	return types.Int(utf8.RuneCountInString(s[:at]))
}

// asciiCase changes the case of the letters from first to last. All other bytes stay.
func asciiCase(s string, first, last byte) string {
	is := func(c byte) bool { return first <= c && c <= last }
	at := 0
	for at < len(s) && !is(s[at]) {
		at++
	}
	if at == len(s) {
		return s
	}
	changed := []byte(s)
	for ; at < len(changed); at++ {
		if is(changed[at]) {
			changed[at] ^= 'a' - 'A'
		}
	}
	return string(changed)
}

func reverse(s string) string {
	reversed := make([]byte, 0, len(s))
	for s != "" {
		_, size := utf8.DecodeLastRuneInString(s)
		reversed = append(reversed, s[len(s)-size:]...)
		s = s[:len(s)-size]
	}
	return string(reversed)
}

// replaceText replaces the first most places, or all if most is negative.
func replaceText(s, from, to string, most int) ref.Val {
	count := strings.Count(s, from)
	if most >= 0 {
		count = min(count, most)
	}
	if grown := len(to) - len(from); grown > 0 && count > (celMaxResult-len(s))/grown {
		return types.WrapErr(errTooLarge)
	}
	return types.String(strings.Replace(s, from, to, count))
}

// split returns at most so many parts, or all if most is negative.
func split(s string, by types.String, most types.Int) ref.Val {
	count := strings.Count(s, string(by)) + 1
	if most >= 0 {
		count = min(count, int(most))
	}
	if count > celMaxParts {
		return types.NewErr("the text splits into more than %d parts", celMaxParts)
	}
	parts := strings.SplitN(s, string(by), count)
	list := make([]ref.Val, len(parts))
	for i, part := range parts {
		list[i] = types.String(part)
	}
	return types.NewRefValList(types.DefaultTypeAdapter, list)
}

var errNoText = errors.New("join takes a list of strings: string(x) makes one of another value")

func join(list, between ref.Val) ref.Val {
	var b strings.Builder
	first := true
	for it := list.(traits.Lister).Iterator(); it.HasNext() == types.True; first = false {
		element := it.Next()
		part, ok := element.(types.String)
		if !ok {
			if types.IsError(element) {
				return element
			}
			return types.WrapErr(fmt.Errorf("%w, not %s", errNoText, element.Type().TypeName()))
		}
		if b.Len()+len(between.(types.String))+len(part) > celMaxResult {
			return types.WrapErr(errTooLarge)
		}
		if !first {
			b.WriteString(string(between.(types.String)))
		}
		b.WriteString(string(part))
	}
	return types.String(b.String())
}
