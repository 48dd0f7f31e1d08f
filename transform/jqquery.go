package transform

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/itchyny/gojq"
)

// A program is changed between being read and being compiled: functions that are not a
// matter of the record alone are refused, and those that make something large of something
// small, or take long over it, are called through a guard that counts first.

// jqRefused says why a program may not call a function.
var jqRefused = map[string]string{ //nolint:gochecknoglobals // a table
	"now":               "it reads the clock: use $timestamp",
	"localtime":         "it depends on the machine's time zone: use gmtime",
	"strflocaltime":     "it depends on the machine's time zone: use strftime",
	"strptime":          "it may depend on the machine's time zone: use fromdate",
	"env":               "it reads the environment",
	"$ENV":              "it reads the environment",
	"input":             "a transform sees one record at a time",
	"inputs":            "a transform sees one record at a time",
	"input_line_number": "a transform sees one record at a time",
	"input_filename":    "a transform sees one record at a time",
	"debug":             "a transform writes nothing but records",
	"stderr":            "a transform writes nothing but records",
	"halt":              "it would end the bridge: use empty to drop a record and error to refuse it",
	"halt_error":        "it would end the bridge: use error to refuse a record",
	"fromstream":        "it is not available here",
	"builtins":          "it is not available here",
	"modulemeta":        "it is not available here",
	"get_search_list":   "it is not available here",
}

// jqGuards are the definitions through which a program calls the functions named. The
// parameters are those of the key; underscored names are the meter's.
var jqGuards = map[string]string{ //nolint:gochecknoglobals // a table
	"tojson":           "_deep | tojson | _flat",
	"tostring":         "_deep | tostring | _flat",
	"add":              "_deep | add | _flat",
	"add(f)":           "[f] | _deep | add | _flat",
	"join($s)":         "_joined($s) | join($s) | _flat",
	"flatten":          "_deep | flatten | _flat",
	"flatten($n)":      "_deep | flatten($n) | _flat",
	"sort":             "_deep | sort | _flat",
	"unique":           "_deep | unique | _flat",
	"min":              "_deep | min",
	"max":              "_deep | max",
	"group_by(f)":      "_deep | group_by(f | _deep) | _flat",
	"sort_by(f)":       "_deep | sort_by(f | _deep) | _flat",
	"unique_by(f)":     "_deep | unique_by(f | _deep) | _flat",
	"min_by(f)":        "_deep | min_by(f | _deep)",
	"max_by(f)":        "_deep | max_by(f | _deep)",
	"reverse":          "_flat | reverse",
	"explode":          "_text | explode",
	"implode":          "_deep | implode | _flat",
	"split($s)":        "_text | split($s)",
	"ascii_downcase":   "ascii_downcase | _flat",
	"ascii_upcase":     "ascii_upcase | _flat",
	"contains($v)":     "_pairs($v) | contains($v)",
	"inside($v)":       "_pairs($v) | inside($v)",
	"index($v)":        "_pairs($v) | index($v)",
	"rindex($v)":       "_pairs($v) | rindex($v)",
	"indices($v)":      "_text | _pairs($v) | indices($v)",
	"bsearch($v)":      "_deep | bsearch($v | _deep)",
	"fromjson":         "_text | fromjson",
	"tonumber":         "_numeral | tonumber",
	"transpose":        "_grid | transpose",
	"setpath(p; v)":    "setpath(p | _places; v)",
	"getpath(p)":       "getpath(p | _places)",
	"delpaths(p)":      "_deep | delpaths(p | _deep)",
	"nth(n)":           "nth(n | _place)",
	"IN(s)":            "_deep | IN(s | _deep)",
	"IN(t; s)":         "IN(t | _deep; s | _deep)",
	"INDEX(f)":         "INDEX(f | _deep)",
	"INDEX(s; f)":      "INDEX(s; f | _deep)",
	"error":            "_deep | error",
	"error(f)":         "error(f | _deep)",
	"test(r)":          "_text | test(r)",
	"test(r; f)":       "_text | test(r; f)",
	"match(r)":         "_searched | match(r)",
	"match(r; f)":      "_searched | match(r; f)",
	"capture(r)":       "_searched | capture(r)",
	"capture(r; f)":    "_searched | capture(r; f)",
	"scan(r)":          "_searched | scan(r)",
	"scan(r; f)":       "_searched | scan(r; f)",
	"splits(r)":        "_searched | splits(r)",
	"splits(r; f)":     "_searched | splits(r; f)",
	"split(r; f)":      "_searched | split(r; f)",
	"sub(r; s)":        "_searched | sub(r; s | _piece)",
	"sub(r; s; f)":     "_searched | sub(r; s | _piece; f)",
	"gsub(r; s)":       "_searched | gsub(r; s | _piece)",
	"gsub(r; s; f)":    "_searched | gsub(r; s | _piece; f)",
	"_minus($b; $a)":   "($a | _pairs($b)) - $b",
	"_times($b; $a)":   "_product($a; $b) | $a * $b | _flat",
	"_divide($b; $a)":  "($a | _text) / $b",
	"_plus_to(p; f)":   "f as $x | p |= (. + $x | _flat)",
	"_minus_to(p; f)":  "f as $x | p |= ((. | _pairs($x)) - $x)",
	"_times_to(p; f)":  "f as $x | p |= (_product(.; $x) | . * $x | _flat)",
	"_divide_to(p; f)": "f as $x | p |= ((. | _text) / $x)",
}

// jqLiteral are the functions that take a text that has to be written out, and the number
// of their arguments that it applies to: a regular expression from a record would be kept
// compiled for ever, and a width from a record would fill the memory.
var jqLiteral = map[string]string{ //nolint:gochecknoglobals // a table
	"test": "regular expression", "match": "regular expression", "capture": "regular expression", "scan": "regular expression",
	"splits": "regular expression", "sub": "regular expression", "gsub": "regular expression", "strftime": "format",
}

// jqOperators are the operators called through a guard.
var jqOperators = map[gojq.Operator]string{ //nolint:gochecknoglobals // a table
	gojq.OpSub: "_minus", gojq.OpMul: "_times", gojq.OpDiv: "_divide",
	gojq.OpUpdateAdd: "_plus_to", gojq.OpUpdateSub: "_minus_to", gojq.OpUpdateMul: "_times_to", gojq.OpUpdateDiv: "_divide_to",
}

// jqRewriter changes the tree of one program.
type jqRewriter struct {
	text  string
	fault error
	used  map[string]bool // the guards called, by their key
}

// guardedJQ reads a program and returns it with its guards.
func guardedJQ(text string) (*gojq.Query, error) {
	query, err := gojq.Parse(text)
	if err != nil {
		at := len(text)
		if inside, ok := errors.AsType[*gojq.ParseError](err); ok {
			at = max(0, inside.Offset-max(1, len(inside.Token)))
		}
		return nil, errAt(at, err)
	}
	if len(query.Imports) > 0 {
		return nil, errAt(0, errors.New("a program cannot import another"))
	}
	w := jqRewriter{text: text, used: map[string]bool{}}
	w.visit(reflect.ValueOf(query))
	if w.fault != nil {
		return nil, w.fault
	}
	var guards strings.Builder
	for _, key := range slices.Sorted(maps.Keys(w.used)) {
		fmt.Fprintf(&guards, "def _g_%s: %s;\n", strings.TrimPrefix(key, "_"), jqGuards[key])
	}
	prelude, err := gojq.Parse(guards.String() + ".")
	if err != nil {
		return nil, err
	}
	query.FuncDefs = append(prelude.FuncDefs, query.FuncDefs...)
	return query, nil
}

// visit goes through the tree from the leaves up. gojq has no visitor; its nodes are
// pointers to structs, and lists of them.
func (w *jqRewriter) visit(v reflect.Value) {
	switch v.Kind() { //nolint:exhaustive // the other kinds hold no nodes
	case reflect.Slice:
		for i := range v.Len() {
			w.visit(v.Index(i))
		}
	case reflect.Pointer:
		if v.IsNil() {
			return
		}
		if v.Elem().Kind() == reflect.Struct {
			for i := range v.Elem().NumField() {
				w.visit(v.Elem().Field(i))
			}
		}
		switch node := v.Interface().(type) {
		case *gojq.Query:
			w.query(node)
		case *gojq.Term:
			w.term(node)
		case *gojq.Func:
			w.call(node)
		case *gojq.FuncDef:
			w.definition(node)
		case *gojq.String:
			w.interpolation(node)
		case *gojq.Index:
			node.Start, node.End = w.placed(node.Start), w.placed(node.End)
		}
	}
}

func (w *jqRewriter) refuse(name, format string, args ...any) {
	if w.fault == nil {
		w.fault = errAt(jqWord(w.text, name), fmt.Errorf(format, args...))
	}
}

// guard returns a call through the guard of a key such as "join($s)".
func (w *jqRewriter) guard(key string, args ...*gojq.Query) *gojq.Func {
	w.used[key] = true
	name, _, _ := strings.Cut(key, "(")
	return &gojq.Func{Name: "_g_" + strings.TrimPrefix(name, "_"), Args: args}
}

// guardKey finds the guard of a function with so many arguments.
func guardKey(name string, arity int) string {
	for key := range jqGuards {
		called, parameters, has := strings.Cut(key, "(")
		count := 0
		if has {
			count = strings.Count(parameters, ";") + 1
		}
		if called == name && count == arity {
			return key
		}
	}
	return ""
}

func calling(f *gojq.Func) *gojq.Query {
	return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeFunc, Func: f}}
}

// checked pipes a query into one of the meter's functions.
func checked(q *gojq.Query, by string) *gojq.Query {
	return &gojq.Query{Left: q, Op: gojq.OpPipe, Right: calling(&gojq.Func{Name: by})}
}

// plain reports whether a query is a number, a short text or a constant.
func plain(q *gojq.Query) bool {
	if q == nil || q.Term == nil || len(q.Term.SuffixList) > 0 {
		return false
	}
	switch q.Term.Type { //nolint:exhaustive // only constants are plain
	case gojq.TermTypeNumber, gojq.TermTypeTrue, gojq.TermTypeFalse, gojq.TermTypeNull:
		return true
	case gojq.TermTypeString:
		return q.Term.Str.Queries == nil
	}
	return false
}

func (w *jqRewriter) query(q *gojq.Query) {
	switch q.Op { //nolint:exhaustive // the other operators make nothing large
	case gojq.OpEq, gojq.OpNe, gojq.OpGt, gojq.OpLt, gojq.OpGe, gojq.OpLe:
		if !plain(q.Left) && !plain(q.Right) {
			q.Left, q.Right = checked(q.Left, "_deep"), checked(q.Right, "_deep")
		}
	case gojq.OpAdd:
		inner := *q
		*q = *checked(&inner, "_flat")
	case gojq.OpSub, gojq.OpMul, gojq.OpDiv:
		if name := jqOperators[q.Op]; !isNumeral(q.Left) || !isNumeral(q.Right) {
			w.replace(q, calling(w.guard(guardKey(name, 2), q.Right, q.Left)))
		}
	case gojq.OpUpdateAdd, gojq.OpUpdateSub, gojq.OpUpdateMul, gojq.OpUpdateDiv:
		w.replace(q, calling(w.guard(guardKey(jqOperators[q.Op], 2), q.Left, q.Right)))
	}
}

// replace puts another query into q's place, behind its definitions.
func (w *jqRewriter) replace(q, by *gojq.Query) {
	by.FuncDefs = q.FuncDefs
	*q = *by
}

func isNumeral(q *gojq.Query) bool {
	return plain(q) && q.Term.Type == gojq.TermTypeNumber
}

// term guards formats such as @csv, which write a value as a whole.
func (w *jqRewriter) term(t *gojq.Term) {
	switch t.Type { //nolint:exhaustive // the other terms are made of queries
	case gojq.TermTypeFormat:
		if t.Str == nil {
			inner := &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeFormat, Format: t.Format}}
			w.enclose(t, checked(&gojq.Query{Left: calling(&gojq.Func{Name: "_deep"}), Op: gojq.OpPipe, Right: inner}, "_flat"))
		}
	case gojq.TermTypeString:
		if t.Str.Queries != nil {
			inner := &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeString, Str: t.Str}}
			w.enclose(t, checked(inner, "_flat"))
		}
	case gojq.TermTypeNumber:
		if len(t.Number) > maxNumberDigits {
			w.refuse(t.Number, "a number has more than %d digits", maxNumberDigits)
		}
	}
}

// enclose makes t the query in parentheses, its suffixes kept.
func (w *jqRewriter) enclose(t *gojq.Term, q *gojq.Query) {
	*t = gojq.Term{Type: gojq.TermTypeQuery, Query: q, SuffixList: t.SuffixList}
}

func (w *jqRewriter) interpolation(s *gojq.String) {
	for i, q := range s.Queries {
		if !plain(q) {
			s.Queries[i] = &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeQuery, Query: checked(q, "_deep")}}
		}
	}
}

// placed guards what stands between brackets, which may be a place that is assigned to.
func (w *jqRewriter) placed(q *gojq.Query) *gojq.Query {
	if q == nil {
		return nil
	}
	if isNumeral(q) {
		if n, err := strconv.ParseFloat(q.Term.Number, 64); err != nil || n > 1000 {
			return checked(q, "_place")
		}
		return q
	}
	if plain(q) {
		return q
	}
	return checked(q, "_place")
}

func (w *jqRewriter) call(f *gojq.Func) {
	if why, refused := jqRefused[f.Name]; refused {
		w.refuse(f.Name, "%s is refused: %s", f.Name, why)
		return
	}
	if strings.HasPrefix(f.Name, "_") {
		w.refuse(f.Name, "unknown function %s", f.Name)
		return
	}
	if what, literal := jqLiteral[f.Name]; literal || f.Name == "split" && len(f.Args) == 2 {
		for i, arg := range f.Args {
			isFlags := i > 0 && i == len(f.Args)-1 && (len(f.Args) == 3 || f.Name != "sub" && f.Name != "gsub")
			if (i == 0 || isFlags) && (!plain(arg) || arg.Term.Type != gojq.TermTypeString && arg.Term.Type != gojq.TermTypeNull) {
				w.refuse(f.Name, "the %s of %s has to be a text that is written out", cmp.Or(what, "regular expression"), f.Name)
				return
			}
		}
		if f.Name == "strftime" && padded(f.Args[0].Term.Str.Str) {
			w.refuse(f.Name, "a width in the format of strftime is refused")
			return
		}
	}
	if key := guardKey(f.Name, len(f.Args)); key != "" {
		*f = *w.guard(key, f.Args...)
	}
}

// padded reports whether a format holds a width, such as %10d.
func padded(format string) bool {
	for _, directive := range strings.Split(format, "%")[1:] {
		if rest := strings.TrimLeft(directive, "-_^#0:+"); rest != "" && isDigit(rest[0]) {
			return true
		}
	}
	return false
}

// definition refuses a name that a guard would take for gojq's own.
func (w *jqRewriter) definition(d *gojq.FuncDef) {
	_, refused := jqRefused[d.Name]
	if refused || guardKey(d.Name, len(d.Args)) != "" || strings.HasPrefix(d.Name, "_") {
		w.refuse(d.Name, "%s cannot be defined: choose another name", d.Name)
	}
}

// jqWord returns where a name stands in a program as a word of its own, outside of texts
// and comments, or 0. gojq's tree does not keep the places.
func jqWord(text, name string) int {
	for at := 0; at < len(text); {
		switch c := text[at]; {
		case c == '#':
			if end := strings.IndexByte(text[at:], '\n'); end >= 0 {
				at += end
				continue
			}
			return 0
		case c == '"':
			end := closingQuote(text, at)
			if end < 0 {
				return 0
			}
			if inside := strings.Index(text[at:end], `\(`); inside >= 0 {
				at += inside + 2 // the words of an interpolation count
				continue
			}
			at = end + 1
		case wordByte(c):
			end := at
			for end < len(text) && wordByte(text[end]) {
				end++
			}
			if text[at:end] == name && (at == 0 || text[at-1] != '.') {
				return at
			}
			at = end
		default:
			at++
		}
	}
	return 0
}

func wordByte(c byte) bool {
	return c == '_' || c == '$' || c == '@' || isDigit(c) || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
