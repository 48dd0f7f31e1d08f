package transform

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// Expressions of CEL, the Common Expression Language: not Turing-complete, checked when
// they are read, and without a clock, randomness or an environment, so that a replayed
// record gets the same answer. One program is shared by nobody: it is built per instance.

const (
	// celCostLimit bounds the work for one record in CEL's own units, about one per step of
	// a macro and one per ten characters that a text function looks at. It is some seconds
	// of computing at most: what needs more is a mistake.
	celCostLimit = 10_000_000

	// celMaxResult bounds what one evaluation may write, in bytes. Kafka's own limit is 1 MiB
	// unless topics are configured otherwise.
	celMaxResult = 32 << 20

	// celMaxExpression bounds an expression in characters, celMaxNesting its parentheses,
	// and celMaxRegex the compiled size of a regular expression.
	//
	// celMaxSums is how many plus signs need no counting: each may add the whole record.
	celMaxExpression = 16 << 10
	celMaxNesting    = 100
	celMaxRegex      = 1000
	celMaxSums       = 16
)

// celExpression is an expression bound to the record at hand.
type celExpression struct {
	program cel.Program
	vars    celVars
	output  *cel.Type
	path    bool    // it is a field of the value and computes nothing
	literal ref.Val // it is this value, or nil
}

// celVars are the variables of an expression. Only what is asked for is decoded.
type celVars struct {
	in      *Record
	scan    *celScan
	root    celJSON // memory for the value, used again for each record; its members are those of scan
	value   ref.Val // nil until asked for
	exact   bool    // see celJSON
	dead    bool    // a tombstone's value was asked for
	headers celHeaders
}

var _ interpreter.Activation = (*celVars)(nil)

// ResolveName returns the value of a variable.
func (v *celVars) ResolveName(name string) (any, bool) {
	switch name {
	case "value":
		if v.value == nil {
			v.value = v.decode()
		}
		return v.value, true
	case "key":
		return celText(v.in.Key), true
	case "text":
		v.dead = v.in.Value == nil
		return celText(v.in.Value), true
	case "headers":
		return v.headers, true
	case "topic":
		return types.String(v.in.Topic), true
	case "partition":
		return types.Int(v.in.Partition), true
	case "offset":
		return types.Int(v.in.Offset), true
	case "timestamp":
		return types.Timestamp{Time: v.in.Timestamp.UTC()}, true
	}
	return nil, false
}

// Parent ends the look-up.
func (v *celVars) Parent() interpreter.Activation { return nil }

func (v *celVars) decode() ref.Val {
	if v.in.Value == nil {
		v.dead = true
		return types.NullValue
	}
	v.scan.read(v.in.Value)
	return v.root.from(v.scan, v.exact)
}

func celEnvironment() (*cel.Env, error) {
	nullableText := types.NewNullableType(cel.StringType)
	return cel.NewEnv(slices.Concat(celTextFunctions(), celMathFunctions(), []cel.EnvOption{
		cel.Variable("key", nullableText),
		cel.Variable("value", cel.DynType),
		cel.Variable("text", nullableText),
		cel.Variable("headers", cel.MapType(cel.StringType, nullableText)),
		cel.Variable("topic", cel.StringType),
		cel.Variable("partition", cel.IntType),
		cel.Variable("offset", cel.IntType),
		cel.Variable("timestamp", cel.TimestampType),
		cel.OptionalTypes(),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.ParserExpressionSizeLimit(celMaxExpression),
		cel.ParserRecursionLimit(celMaxNesting),
		cel.RegexProgramSizeLimit(celMaxRegex),
		cel.ASTValidators(cel.ValidateRegexLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateDurationLiterals()),
	})...)
}

// newCelExpression reads an expression that stands at offset in a transform's argument. Its
// errors are *argError.
func newCelExpression(text string, offset int) (*celExpression, error) {
	if strings.TrimSpace(text) == "" {
		return nil, errAt(offset, errors.New("the expression is missing"))
	}
	env, err := celEnvironment()
	if err != nil {
		return nil, err
	}
	checked, issues := env.Compile(text)
	if issues.Err() != nil {
		first := issues.Errors()[0]
		at := offset + byteOffset(text, first.Location.Line(), first.Location.Column())
		return nil, errAt(at, errors.New(celMessage(first.Message)))
	}
	tree := checked.NativeRep()
	options := []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize), cel.CustomDecoratorV2(sortMaps)}
	grows, sums := false, 0
	var fault error
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.Add {
			sums++
		}
		grows = grows || e.Kind() == ast.ComprehensionKind || e.Kind() == ast.CallKind && celGrows[e.AsCall().FunctionName()]
		if fault == nil && usesTimeZone(tree, e) {
			where := tree.SourceInfo().GetStartLocation(e.ID())
			fault = errAt(
				offset+byteOffset(text, where.Line(), where.Column()),
				errors.New("a time zone's rules come from the machine: use UTC, or add a duration"),
			)
		}
	}))
	if fault != nil {
		return nil, fault
	}
	// Without a macro or a function that makes more than it gets, the work is bounded by the
	// expression and the record, and counting it would cost more than it.
	if grows || sums > celMaxSums {
		options = append(options, cel.CostLimit(celCostLimit), cel.CostTrackerOptions(celTextCosts()...))
	}
	program, err := env.Program(checked, options...)
	if err != nil {
		return nil, errAt(offset, err)
	}
	e := &celExpression{program: program, output: checked.OutputType(), vars: celVars{scan: &celScan{}}}
	e.path = isPath(tree.Expr())
	if tree.Expr().Kind() == ast.LiteralKind {
		e.literal = tree.Expr().AsLiteral()
	}
	return e, nil
}

// usesTimeZone finds calls such as timestamp.getHours("Europe/Berlin").
func usesTimeZone(tree *ast.AST, e ast.Expr) bool {
	if e.Kind() != ast.CallKind {
		return false
	}
	for _, id := range tree.GetOverloadIDs(e.ID()) {
		if strings.HasSuffix(id, "_with_tz") {
			return true
		}
	}
	return false
}

// isPath tells whether the expression is a field of the value and computes nothing.
func isPath(e ast.Expr) bool {
	for {
		switch kind := e.Kind(); {
		case kind == ast.IdentKind:
			return e.AsIdent() == "value"
		case kind == ast.SelectKind && !e.AsSelect().IsTestOnly():
			e = e.AsSelect().Operand()
		case kind == ast.CallKind:
			call := e.AsCall()
			if call.FunctionName() != "_[_]" || call.Args()[1].Kind() != ast.LiteralKind {
				return false
			}
			e = call.Args()[0]
		default:
			return false
		}
	}
}

// byteOffset turns CEL's place (line from 1, column from 0 in characters) into a position.
func byteOffset(text string, line, column int) int {
	at := 0
	for ; line > 1; line-- {
		next := strings.IndexByte(text[at:], '\n')
		if next < 0 {
			return len(text)
		}
		at += next + 1
	}
	for ; column > 0 && at < len(text); column-- {
		_, size := utf8.DecodeRuneInString(text[at:])
		at += size
	}
	return at
}

// celMessage leaves out what only makes sense to an author of a CEL library.
func celMessage(message string) string {
	message, _, _ = strings.Cut(message, " expecting ")
	message = strings.TrimSuffix(message, " (in container '')")
	message = strings.TrimPrefix(message, "Syntax error: ")
	if message == "invalid matches argument" {
		return "the regular expression is wrong or too large"
	}
	return strings.NewReplacer("wrapper(string)", "string or null", "google.protobuf.Timestamp", "timestamp").Replace(message)
}

// eval computes the expression for a record.
func (e *celExpression) eval(in *Record) (ref.Val, error) {
	v := &e.vars
	v.in, v.value, v.dead, v.headers = in, nil, false, celHeaders{&in.Headers}
	result, _, err := e.program.Eval(v)
	if err != nil {
		err = v.explain(err)
	}
	return result, err
}

// release lets go of the record.
func (e *celExpression) release() {
	v := &e.vars
	v.in, v.value, v.headers = nil, nil, celHeaders{}
	v.root.release()
	v.scan.done()
}

// explain adds the remedy to CEL's own error.
func (v *celVars) explain(err error) error {
	cancelled := interpreter.EvalCancelledError{}
	switch text := err.Error(); {
	case errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded:
		return fmt.Errorf("the expression took more than %d steps", celCostLimit)
	case v.dead:
		return fmt.Errorf("%w: the value is null, a tombstone; say what becomes of one with value == null", err)
	case strings.HasPrefix(text, "no such key"):
		return fmt.Errorf("%w: ask with has() or .? for a field that may be missing", err)
	case text == "no such overload":
		return fmt.Errorf("%w: a value is of another type than the expression needs", err)
	}
	return err
}

// condition computes an expression that is a bool.
func (e *celExpression) condition(in *Record) (bool, error) {
	defer e.release()
	result, err := e.eval(in)
	if err != nil {
		return false, err
	}
	holds, ok := result.(types.Bool)
	if !ok {
		return false, fmt.Errorf("the expression gave a %s, want a bool", result.Type().TypeName())
	}
	return bool(holds), nil
}

// gives checks when the expression is read that its result can be of the type.
func (e *celExpression) gives(offset int, want ...*cel.Type) error {
	if e.output.IsExactType(cel.DynType) {
		return nil
	}
	for _, t := range want {
		if t.IsAssignableType(e.output) {
			return nil
		}
	}
	return errAt(offset, fmt.Errorf("the expression gives a %s, want a %s", celMessage(e.output.String()), celMessage(want[0].String())))
}
