package transform

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The syntax of an expression:
//
//	expression = [ call { "|" call } ]
//	call       = name [ "(" argument ")" ]
//
// White space, line breaks included, may stand around every part. An argument is any text
// in which parentheses match; those between quotes ("…" or '…', where a backslash protects
// the next character, or `…`, where it does not) are not counted. A pipe inside the
// parentheses belongs to the argument. The argument reaches the transform as written:
// what quotes mean is the transform's business, because to an expression language they
// are part of the expression.

// Spec is an expression that was understood. It does not change and may be shared.
type Spec struct {
	stages  []stage
	targets []string
	outside *Environment
}

// stage is one call of an expression, bound to its definition.
type stage struct {
	call
	definition Definition
	first      Transform // what Parse built, the model of those that fork
}

// call is one call of an expression as written.
type call struct {
	name string
	arg  string
	// namePos and argPos are byte positions in the expression; without an argument argPos
	// is where one would stand.
	namePos, argPos int

	// text is the argument that the transform gets: arg, or what stands in the file that
	// arg names. skipped is how many bytes of the file's content come before it.
	text          string
	file, content string
	skipped       int
}

// ParseError says where an expression is wrong and what to write instead.
type ParseError struct {
	Line   int // counted from 1
	Column int // counted from 1 in characters, not bytes
	Err    error
}

// Error names the column, and the line if the expression has reached a second one.
func (e *ParseError) Error() string {
	if e.Line > 1 {
		return fmt.Sprintf("line %d, column %d: %v", e.Line, e.Column, e.Err)
	}
	return fmt.Sprintf("column %d: %v", e.Column, e.Err)
}

// Unwrap returns the cause, for instance what a transform's constructor said.
func (e *ParseError) Unwrap() error { return e.Err }

// Parse reads an expression such as
//
//	drop_tombstones | filter_header(region=eu) | route(orders-eu)
//
// An empty one is the identity. Every transform is built once, so that a wrong argument
// is found here. All errors are of type *ParseError.
//
// Its transforms can ask nothing outside: those that would have to refuse every record.
func Parse(expr string) (*Spec, error) { return ParseWith(expr, Environment{}) }

// ParseWith is Parse with what the transforms may ask.
func ParseWith(expr string, e Environment) (*Spec, error) {
	return registered.parse(expr, e.sharing())
}

func (c catalog) parse(expr string, outside *Environment) (*Spec, error) {
	calls, err := scan(expr)
	if err != nil {
		return nil, err
	}
	spec := &Spec{outside: outside}
	for _, call := range calls {
		definition, known := c[call.name]
		if !known {
			return nil, errorAt(expr, call.namePos, c.unknown(call.name))
		}
		if definition.ReadsFile {
			call.text = call.arg
		} else if call, err = call.fetched(expr); err != nil {
			return nil, err
		}
		built, err := definition.build(call.text, outside)
		if err != nil {
			return nil, call.errorIn(expr, err)
		}
		call.content = "" // only its errors needed it
		if router, ok := built.(interface{ Targets() []string }); ok {
			spec.targets = append(spec.targets, router.Targets()...)
		}
		spec.stages = append(spec.stages, stage{call: call, definition: definition, first: built})
	}
	slices.Sort(spec.targets)
	spec.targets = slices.Compact(spec.targets)
	return spec, nil
}

func (c catalog) unknown(name string) error {
	if class, known := connectName(name); known {
		return fmt.Errorf("unknown transform %q: in place of Kafka Connect's %s: %s", name, class.connect, class.ours)
	}
	if near := c.nearest(name); near != "" {
		return fmt.Errorf("unknown transform %q: did you mean %q?", name, near)
	}
	return fmt.Errorf("unknown transform %q: eosbridge transform list shows all of them", name)
}

// Identity reports whether the chain lets every record through as it is.
func (s *Spec) Identity() bool {
	return !slices.ContainsFunc(s.stages, func(st stage) bool { return st.name != identityName })
}

// Targets returns the topics that the chain may name as Record.Target, sorted and each
// once. The default output is not among them.
func (s *Spec) Targets() []string { return slices.Clone(s.targets) }

// Interpreted reports whether a WebAssembly guest of the chain is interpreted, for some forty
// times the CPU time, because memory of this process may not become executable.
func (s *Spec) Interpreted() bool {
	return slices.ContainsFunc(s.stages, func(st stage) bool {
		guest, isGuest := st.first.(interface{ Interpreted() bool })
		return isGuest && guest.Interpreted()
	})
}

// Registries tells which schema registries the chain asks.
func (s *Spec) Registries() (source, target bool) {
	for _, st := range s.stages {
		if asks, ok := st.first.(interface{ registries() (bool, bool) }); ok {
			first, second := asks.registries()
			source, target = source || first, target || second
		}
	}
	return source, target
}

// Resolve looks up what the chain needs to know before the first record and keeps to until
// the process ends: the schemas that it encodes with. What is not looked up here is when a
// record needs it. The error is an *UnavailableError if there was no answer.
func (s *Spec) Resolve(ctx context.Context) error {
	for i, st := range s.stages {
		if asks, ok := st.first.(interface{ resolve(context.Context) error }); ok {
			if err := asks.resolve(ctx); err != nil {
				return &Error{Transform: st.name, Stage: i + 1, Err: err}
			}
		}
	}
	return nil
}

// String returns the expression in its plain form; Parse reads it as the same Spec. The
// empty expression stays empty.
func (s *Spec) String() string {
	var b strings.Builder
	for i, st := range s.stages {
		if i > 0 {
			b.WriteString(" | ")
		}
		b.WriteString(st.call.String())
	}
	return b.String()
}

func (c call) String() string {
	if c.arg == "" {
		return c.name
	}
	return c.name + "(" + c.arg + ")"
}

// scan splits an expression into its calls without knowing any name.
func scan(expr string) ([]call, error) {
	pos := skipSpace(expr, 0)
	if pos == len(expr) {
		return nil, nil
	}
	var calls []call
	for {
		next, end, err := scanCall(expr, pos)
		if err != nil {
			return nil, err
		}
		calls = append(calls, next)
		pos = skipSpace(expr, end)
		switch {
		case pos == len(expr):
			return calls, nil
		case expr[pos] == '|':
			pos = skipSpace(expr, pos+1)
		case expr[pos] == ')':
			return nil, errorAt(expr, pos, fmt.Errorf("%q closes nothing: remove it, or quote the parentheses of the argument of %s", ")", next.name))
		default:
			return nil, errorAt(expr, pos, fmt.Errorf("unexpected %q after %s: put %q between two transforms", firstRune(expr[pos:]), next.name, "|"))
		}
	}
}

// scanCall reads one call from pos on and returns the position behind it.
func scanCall(expr string, pos int) (call, int, error) {
	end := pos
	for end < len(expr) && isNameByte(expr[end]) {
		end++
	}
	if end == pos {
		return call{}, 0, errorAt(expr, pos, missingName(expr[pos:]))
	}
	found := call{name: expr[pos:end], namePos: pos, argPos: pos}
	open := skipSpace(expr, end)
	if open == len(expr) || expr[open] != '(' {
		return found, end, nil
	}
	closing, err := closingParenthesis(expr, open)
	if err != nil {
		return call{}, 0, err
	}
	found.arg = strings.TrimSpace(expr[open+1 : closing])
	found.argPos = skipSpace(expr, open+1)
	return found, closing + 1, nil
}

func missingName(rest string) error {
	switch {
	case rest == "":
		return errors.New(`a transform is missing after "|": add one or remove the "|"`)
	case rest[0] == '|':
		return errors.New(`a transform is missing before "|": add one or remove the "|"`)
	default:
		return fmt.Errorf("unexpected %q where the name of a transform should stand", firstRune(rest))
	}
}

// closingParenthesis returns the position of the parenthesis that closes the one at open.
func closingParenthesis(expr string, open int) (int, error) {
	depth := 0
	for pos := open; pos < len(expr); pos++ {
		switch c := expr[pos]; c {
		case '(':
			depth++
		case ')':
			depth--
			if depth == 0 {
				return pos, nil
			}
		case '"', '\'', '`':
			end := closingQuote(expr, pos)
			if end < 0 {
				return 0, errorAt(expr, pos, fmt.Errorf("the quote %c is not closed: close it, or put text that holds one in quotes of another kind", c))
			}
			pos = end
		}
	}
	return 0, errorAt(expr, open, fmt.Errorf("%q is not closed: add %q", "(", ")"))
}

// closingQuote returns the position of the quote that closes the one at open, or -1.
func closingQuote(s string, open int) int {
	quote := s[open]
	for pos := open + 1; pos < len(s); pos++ {
		switch {
		case s[pos] == quote:
			return pos
		case s[pos] == '\\' && quote != '`':
			pos++
		}
	}
	return -1
}

// isNameByte accepts more than registered names have, so that Drop-Header is answered with
// the name that was meant and not with a complaint about a character.
func isNameByte(c byte) bool {
	return c == '_' || c == '-' || c == '.' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// skipSpace returns the first position from pos on that holds no white space.
func skipSpace(s string, pos int) int {
	return len(s) - len(strings.TrimLeftFunc(s[pos:], unicode.IsSpace))
}

func firstRune(s string) string {
	_, size := utf8.DecodeRuneInString(s)
	return s[:size]
}

// errorAt locates err at a byte position of the expression.
func errorAt(expr string, pos int, err error) error {
	line, column := lineAndColumn(expr, pos)
	return &ParseError{Line: line, Column: column, Err: err}
}

// lineAndColumn counts both from 1, the column in characters.
func lineAndColumn(text string, pos int) (line, column int) {
	before := text[:pos]
	lineStart := strings.LastIndexByte(before, '\n') + 1
	return strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[lineStart:]) + 1
}
