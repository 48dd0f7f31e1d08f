package transform

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Avro is written out here, and not left to a library, for three reasons: the members of a
// map have to come out in their order (through a map of Go they would come in another one on
// each replay); numbers pass from one text to the other and through no type of Go; and a
// library adds 0.9 MB to a program of 29 (twmb/avro 1.9, measured). The tests compare with twmb/avro.

type avroKind int

const (
	avroNull avroKind = iota
	avroBoolean
	avroInt
	avroLong
	avroFloat
	avroDouble
	avroBytes
	avroString
	avroFixed
	avroEnum
	avroArray
	avroMap
	avroUnion
	avroRecord
)

func (k avroKind) String() string {
	return [...]string{"null", "boolean", "int", "long", "float", "double", "bytes", "string", "fixed", "enum", "array", "map", "union", "record"}[k]
}

// maxAvroDepth bounds how deep a schema, and data, may be nested.
const maxAvroDepth = 200

var errAvroDeep = fmt.Errorf("it is nested deeper than %d levels", maxAvroDepth)

// avroType is a type of a schema. A type with a name may lead to itself.
type avroType struct {
	kind     avroKind
	name     string // with the namespace if it has one, else the kind's: what a union calls it
	size     int    // of a fixed, in bytes
	decimal  bool   // bytes or a fixed that are a number, with scale digits behind the point
	scale    int
	digits   int // the most that it may have; the schema's precision
	symbols  []string
	item     *avroType   // of an array or map
	branches []*avroType // of a union
	fields   []avroField
	byName   map[string]int // of fields
}

type avroField struct {
	name   string
	typ    *avroType
	preset json.RawMessage // the default as the schema has it; nil: there is none
}

// avroParser reads one schema and what it builds upon: a name counts in all that follows.
type avroParser struct {
	named map[string]*avroType
	depth int
}

func parseAvro(text string, others []namedSchema) (*avroType, error) {
	p := avroParser{named: map[string]*avroType{}}
	for _, other := range others {
		if _, err := p.document(other.Text); err != nil {
			return nil, fmt.Errorf("reference %q: %w", other.from.Name, err)
		}
	}
	return p.document(text)
}

func (p *avroParser) document(text string) (*avroType, error) {
	raw := json.RawMessage(text)
	if name := strings.TrimSpace(text); isAvroName(name) { // without quotes, as some registries have it
		raw = json.RawMessage(`"` + name + `"`)
	} else if _, err := jsonRoot(raw); err != nil {
		return nil, errors.New("the schema is not JSON, as one of Avro has to be")
	}
	return p.parse(raw, "")
}

func isAvroName(s string) bool {
	_, primitive := avroPrimitive(s)
	return primitive
}

func avroPrimitive(name string) (avroKind, bool) {
	for k := avroNull; k <= avroString; k++ {
		if k.String() == name {
			return k, true
		}
	}
	return 0, false
}

// parse reads a type that stands where names without a namespace are of space.
func (p *avroParser) parse(raw json.RawMessage, space string) (*avroType, error) {
	p.depth++
	defer func() { p.depth-- }()
	if p.depth > maxAvroDepth {
		return nil, errAvroDeep
	}
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return nil, errors.New("a type is missing")
	}
	switch raw[0] {
	case '"':
		var name string
		if err := json.Unmarshal(raw, &name); err != nil {
			return nil, err
		}
		return p.lookUp(name, space)
	case '[':
		return p.union(raw, space)
	case '{':
		var attributes avroAttributes
		if err := json.Unmarshal(raw, &attributes); err != nil {
			return nil, err
		}
		return p.object(attributes, space)
	}
	return nil, fmt.Errorf("a type is %s: it has to be a name, an object or an array", jsonKind(raw, 0))
}

func (p *avroParser) lookUp(name, space string) (*avroType, error) {
	if kind, primitive := avroPrimitive(name); primitive {
		return &avroType{kind: kind, name: name}, nil
	}
	if t := p.named[fullName(name, space)]; t != nil {
		return t, nil
	}
	if t := p.named[name]; t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("the type %q is not defined before it is used, nor in a reference", name)
}

func fullName(name, space string) string {
	if space == "" || strings.Contains(name, ".") {
		return name
	}
	return space + "." + name
}

func (p *avroParser) union(raw json.RawMessage, space string) (*avroType, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	t := &avroType{kind: avroUnion, name: "union"}
	for _, item := range list {
		branch, err := p.parse(item, space)
		if err != nil {
			return nil, err
		}
		if branch.kind == avroUnion {
			return nil, errors.New("a union lies directly in a union")
		}
		if slices.ContainsFunc(t.branches, func(other *avroType) bool { return other.name == branch.name }) {
			return nil, fmt.Errorf("a union has %s twice", branch.name)
		}
		t.branches = append(t.branches, branch)
	}
	if len(t.branches) == 0 {
		return nil, errors.New("a union has no branches")
	}
	return t, nil
}

// avroAttributes are those of a type or field. Names of JSON are matched exactly.
type avroAttributes map[string]json.RawMessage

func (a avroAttributes) text(name string) (string, error) {
	raw, found := a[name]
	if !found {
		return "", nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", fmt.Errorf("%q is %s: it has to be a string", name, jsonKind(bytes.TrimSpace(raw), 0))
	}
	return s, nil
}

// number returns a whole number that is not negative.
func (a avroAttributes) number(name string) (n int, found bool) {
	if err := json.Unmarshal(a[name], &n); err != nil || n < 0 {
		return 0, false
	}
	return n, true
}

func (p *avroParser) object(a avroAttributes, space string) (*avroType, error) {
	raw := bytes.TrimSpace(a["type"])
	if len(raw) == 0 || raw[0] != '"' {
		return p.parse(raw, space) // {"type": {…}}
	}
	kind, err := a.text("type")
	if err != nil {
		return nil, err
	}
	switch kind {
	case "record", "error", "enum", "fixed":
		return p.namedType(kind, a, space)
	case "array":
		item, err := p.parse(a["items"], space)
		return &avroType{kind: avroArray, name: kind, item: item}, err
	case "map":
		item, err := p.parse(a["values"], space)
		return &avroType{kind: avroMap, name: kind, item: item}, err
	}
	t, err := p.lookUp(kind, space)
	if err == nil && t.kind == avroBytes {
		t.readDecimal(a)
	}
	return t, err
}

// readDecimal takes up the logical type, which is ignored where it is wrong.
func (t *avroType) readDecimal(a avroAttributes) {
	logical, _ := a.text("logicalType")
	digits, _ := a.number("precision")
	scale, _ := a.number("scale")
	if logical == "decimal" && digits > 0 && scale <= digits {
		t.decimal, t.digits, t.scale = true, digits, scale
	}
}

// namedType reads a record, an enum or a fixed.
func (p *avroParser) namedType(kind string, a avroAttributes, space string) (*avroType, error) {
	name, err := a.text("name")
	if err != nil {
		return nil, err
	}
	if name == "" {
		return nil, fmt.Errorf("a type of the kind %s has no name", kind)
	}
	if own, err := a.text("namespace"); err != nil {
		return nil, err
	} else if _, given := a["namespace"]; given {
		space = own
	}
	full := strings.TrimPrefix(fullName(name, space), ".")
	if p.named[full] != nil {
		return nil, fmt.Errorf("the type %s is defined twice", full)
	}
	t := &avroType{name: full}
	p.named[full] = t
	if dot := strings.LastIndexByte(full, '.'); dot >= 0 {
		space = full[:dot]
	} else {
		space = ""
	}
	switch kind {
	case "enum":
		t.kind = avroEnum
		if err := json.Unmarshal(a["symbols"], &t.symbols); err != nil || len(t.symbols) == 0 {
			return nil, fmt.Errorf("the enum %s has no symbols", full)
		}
	case "fixed":
		t.kind = avroFixed
		var found bool
		if t.size, found = a.number("size"); !found {
			return nil, fmt.Errorf("the fixed %s has no size", full)
		}
		t.readDecimal(a)
	default:
		t.kind = avroRecord
		if err := p.fields(t, a, space); err != nil {
			return nil, fmt.Errorf("record %s: %w", full, err)
		}
	}
	return t, nil
}

func (p *avroParser) fields(t *avroType, a avroAttributes, space string) error {
	var list []avroAttributes
	if err := json.Unmarshal(a["fields"], &list); err != nil {
		return errors.New("its fields are no array of objects")
	}
	t.byName = make(map[string]int, len(list))
	for i, f := range list {
		name, err := f.text("name")
		if err != nil {
			return err
		}
		if _, twice := t.byName[name]; twice || name == "" {
			return fmt.Errorf("the name %q of a field is there twice, or empty", name)
		}
		typ, err := p.parse(f["type"], space)
		if err != nil {
			return fmt.Errorf("field %s: %w", name, err)
		}
		t.byName[name] = i
		t.fields = append(t.fields, avroField{name: name, typ: typ, preset: f["default"]})
	}
	return nil
}
