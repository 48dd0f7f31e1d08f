package transform

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

func init() {
	Register(Definition{
		Name:  "set",
		Usage: "set(value.field = expression)",
		Doc: "Sets a field of the value, the whole value, the key, a header or the timestamp to the result of an expression in CEL, whose variables are those of filter. " +
			"Everything else in the value stays byte for byte; a field that is missing is added at the end of its object, objects on the way to it as well. " +
			"A field copied from another keeps its text, such as 1.10. set(value = null) makes a tombstone; a tombstone passes a set of one of its fields unchanged.",
		Example: `set(value.tier = value.amount > 100 ? "gold" : "base")`,
		New:     newCelSet,
	})
}

// celSet writes the result of an expression to one place of a record.
type celSet struct {
	target  string   // value, key, headers or timestamp
	path    []string // into the value; a place in an array is its number
	header  string
	compute *celExpression
	literal ref.Val // the result, if the expression is no more than one value
	scan    *celScan
	fields  celJSON // the value, for finding the path; its members are those of scan
	inner   celJSON // memory for what is on the path
	headers arena
}

func newCelSet(arg string) (Transform, error) {
	equals := assignment(arg)
	if equals < 0 {
		return nil, errors.New("write what to set, an equals sign and the expression, such as value.tier = \"gold\"")
	}
	t := &celSet{}
	if err := t.aim(strings.TrimSpace(arg[:equals])); err != nil {
		return nil, err
	}
	var err error
	if t.compute, err = newCelExpression(arg[equals+1:], equals+1); err != nil {
		return nil, err
	}
	t.compute.vars.exact = t.compute.path
	t.share(&celScan{})
	t.literal = t.compute.literal
	if t.target == "timestamp" {
		return t, t.compute.gives(equals+1, cel.TimestampType, cel.IntType)
	}
	return t, nil
}

func (t *celSet) share(scan *celScan) { t.scan, t.compute.vars.scan = scan, scan }

// assignment returns where the equals sign stands, outside quotes, or -1.
func assignment(arg string) int {
	for i := 0; i < len(arg); i++ {
		switch arg[i] {
		case '=':
			return i
		case '"', '\'':
			if i = closingQuote(arg, i); i < 0 {
				return -1
			}
		}
	}
	return -1
}

// aim reads what stands left of the equals sign.
func (t *celSet) aim(left string) error {
	root, path, err := splitPath(left)
	if err != nil {
		return err
	}
	t.target, t.path = root, path
	switch {
	case root == "value":
		return nil
	case root == "headers" && len(path) == 1:
		t.header = path[0]
		return nil
	case (root == "key" || root == "timestamp") && len(path) == 0:
		return nil
	}
	return fmt.Errorf("%q cannot be set: use value, value.field, key, headers.name or timestamp", left)
}

// splitPath reads a.b["c d"][0].
func splitPath(left string) (root string, path []string, err error) {
	end := strings.IndexAny(left, ".[")
	if end < 0 {
		return left, nil, nil
	}
	root, rest := left[:end], left[end:]
	for rest != "" {
		switch rest[0] {
		case '.':
			end := strings.IndexAny(rest[1:], ".[") + 1
			if end == 0 {
				end = len(rest)
			}
			path, rest = append(path, rest[1:end]), rest[end:]
		case '[':
			name, tail, err := firstText(rest[1:], "]")
			if err != nil {
				return "", nil, err
			}
			if !strings.HasPrefix(tail, "]") {
				return "", nil, fmt.Errorf("%q is not closed: add %q", "[", "]")
			}
			path, rest = append(path, name), strings.TrimSpace(tail[1:])
		default:
			return "", nil, fmt.Errorf("unexpected %q in what is to be set", rest)
		}
		if path[len(path)-1] == "" {
			return "", nil, errors.New("a field without a name cannot be set")
		}
	}
	return root, path, nil
}

func (t *celSet) Apply(in *Record, out []Record) ([]Record, error) {
	if in.Value == nil && len(t.path) > 0 && t.target == "value" {
		return append(out, *in), nil
	}
	result, err := t.literal, error(nil)
	defer t.scan.done()
	if result == nil {
		defer t.compute.release()
		if result, err = t.compute.eval(in); err != nil {
			return out, err
		}
	}
	changed := *in
	switch t.target {
	case "value":
		changed.Value, err = t.newValue(in, result)
	case "key":
		changed.Key, err = plainBytes(result)
	case "headers":
		changed.Headers, err = t.newHeaders(in.Headers, result)
	case "timestamp":
		changed.Timestamp, err = newTimestamp(result)
	}
	if err != nil {
		return out, err
	}
	return append(out, changed), nil
}

func (t *celSet) newValue(in *Record, result ref.Val) ([]byte, error) {
	if len(t.path) > 0 {
		return t.splice(in.Value, result)
	}
	if result == types.NullValue {
		return nil, nil
	}
	return appendJSON(nil, result)
}

// splice returns the document with the result at the path.
func (t *celSet) splice(doc []byte, result ref.Val) ([]byte, error) {
	defer t.fields.release()
	defer t.inner.release()
	t.scan.read(doc)
	fields, value := &t.fields, t.fields.from(t.scan, true)
	from, to := 0, len(doc)
	for i, name := range t.path {
		if i > 0 {
			fields, value = &t.inner, t.inner.read(doc[from:to], true)
		}
		if types.IsError(value) {
			return nil, value.(error)
		} else if _, isScalar := value.(celLiteral); isScalar || value.Type() != types.MapType && value.Type() != types.ListType {
			return nil, fmt.Errorf("cannot set the field %q of a %s", name, kindOf(value))
		}
		at, err := fields.place(name)
		if err != nil {
			return nil, err
		}
		if at < 0 {
			return t.insert(doc, from, i, fields, result)
		}
		m := fields.members[at]
		from, to = from+m.start, from+m.end
	}
	return replace(doc, from, to, func(b []byte) ([]byte, error) { return appendJSON(b, result) })
}

func kindOf(value ref.Val) string {
	if _, ok := value.(celLiteral); ok {
		return "number"
	}
	return value.Type().TypeName()
}

// place finds a name in an object, or a number in an array.
func (v *celJSON) place(name string) (int, error) {
	if v.object {
		return v.find(name)
	}
	i, err := strconv.Atoi(name)
	if err != nil || i < 0 || i >= len(v.members) {
		return -1, fmt.Errorf("the list has %d elements and no place %q to set", len(v.members), name)
	}
	return i, nil
}

// insert adds what is left of the path to the object that begins at from, behind its last
// field.
func (t *celSet) insert(doc []byte, from, depth int, fields *celJSON, result ref.Val) ([]byte, error) {
	at := from + fields.start + len("{")
	first := len(fields.members) == 0
	if !first {
		at = from + fields.members[len(fields.members)-1].end
	}
	return replace(doc, at, at, func(b []byte) ([]byte, error) {
		if !first {
			b = append(b, ',')
		}
		var err error
		for i, name := range t.path[depth:] {
			if i > 0 {
				b = append(b, '{')
			}
			b = append(appendQuoted(b, name), ':')
		}
		b, err = appendJSON(b, result)
		for range t.path[depth+1:] {
			b = append(b, '}')
		}
		return b, err
	})
}

// replace copies doc with the bytes from from to to written anew.
func replace(doc []byte, from, to int, write func([]byte) ([]byte, error)) ([]byte, error) {
	const usual = 64 // bytes: most fields are shorter
	changed := make([]byte, 0, len(doc)+usual)
	changed, err := write(append(changed, doc[:from]...))
	if err != nil {
		return nil, err
	}
	return append(changed, doc[to:]...), nil
}

// plainBytes writes a result where Kafka has bytes: text as it is, anything else as JSON.
func plainBytes(result ref.Val) ([]byte, error) {
	switch v := result.(type) {
	case types.Null:
		return nil, nil
	case types.String:
		return []byte(v), nil
	case types.Bytes:
		return []byte(v), nil
	}
	return appendJSON(nil, result)
}

func (t *celSet) newHeaders(old []Header, result ref.Val) ([]Header, error) {
	value, err := plainBytes(result)
	if err != nil {
		return nil, err
	}
	return withHeader(old, Header{t.header, value}, &t.headers), nil
}

// newTimestamp reads a time, or a number of milliseconds, which is what Kafka keeps.
func newTimestamp(result ref.Val) (time.Time, error) {
	var at time.Time
	switch v := result.(type) {
	case types.Timestamp:
		at = v.Time.Truncate(time.Millisecond)
	case types.Int:
		at = time.UnixMilli(int64(v))
	case celLiteral:
		ms, err := strconv.ParseInt(string(v.raw), 10, 64)
		if err != nil {
			return at, fmt.Errorf("the timestamp %.*s is no number of milliseconds", maxNumberText, v.raw)
		}
		at = time.UnixMilli(ms)
	default:
		return at, fmt.Errorf("the expression gave a %s, want a timestamp or a number of milliseconds", result.Type().TypeName())
	}
	if at.UnixMilli() < 0 {
		return at, errors.New("the timestamp lies before 1970, where Kafka has none")
	}
	return at, nil
}
