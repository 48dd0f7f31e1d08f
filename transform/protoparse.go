package transform

import (
	"errors"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// maxProtoDepth bounds how deep messages may be nested in a schema, and in data.
const maxProtoDepth = 100

// protoParser reads a schema into the form that the Protobuf library has for it, which then
// looks up names and checks the rest.
type protoParser struct {
	*protoLexer
	file  *descriptorpb.FileDescriptorProto
	depth int
}

func readProto(name, text string) (*descriptorpb.FileDescriptorProto, error) {
	p := &protoParser{
		protoLexer: newProtoLexer(text),
		file:       &descriptorpb.FileDescriptorProto{Name: &name, Syntax: proto.String("proto2")},
	}
	for p.next.kind != protoEnd {
		p.statement()
	}
	return p.file, p.fault
}

func (p *protoParser) statement() {
	switch {
	case p.sign(";"):
	case p.sign("syntax"):
		p.need("=")
		syntax := p.quoted()
		if syntax != "proto2" && syntax != "proto3" {
			p.fail("the syntax %.50q is not known: proto2 and proto3 are", syntax)
		}
		p.file.Syntax = &syntax
		p.need(";")
	case p.sign("edition"):
		p.fail("editions are not supported, only proto2 and proto3")
	case p.sign("package"):
		p.file.Package = proto.String(p.word(true))
		p.need(";")
	case p.sign("import"):
		public := p.sign("public")
		if !public {
			p.sign("weak")
		}
		if public {
			p.file.PublicDependency = append(p.file.PublicDependency, int32(len(p.file.Dependency))) //nolint:gosec // bounded by the text
		}
		p.file.Dependency = append(p.file.Dependency, p.quoted())
		p.need(";")
	case p.sign("message"):
		p.file.MessageType = append(p.file.MessageType, p.message())
	case p.sign("enum"):
		p.file.EnumType = append(p.file.EnumType, p.enum())
	case p.sign("extend"), p.sign("service"):
		p.word(true)
		p.block()
	case p.sign("option"):
		p.rest()
	default:
		p.unexpected("a definition")
	}
}

// block steps over what stands between braces.
func (p *protoParser) block() {
	p.need("{")
	for depth := 1; depth > 0 && p.next.kind != protoEnd; p.advance() {
		switch {
		case p.next.kind != protoSign:
		case p.next.text == "{":
			depth++
		case p.next.text == "}":
			depth--
		}
	}
}

// rest steps over the rest of a statement.
func (p *protoParser) rest() {
	for p.next.kind != protoEnd && !p.sign(";") {
		if p.next.kind == protoSign && p.next.text == "{" {
			p.block()
			continue
		}
		p.advance()
	}
}

func (p *protoParser) message() *descriptorpb.DescriptorProto {
	m := &descriptorpb.DescriptorProto{Name: proto.String(p.word(false))}
	var entries []*descriptorpb.DescriptorProto // of maps; behind the others, whose places count
	p.need("{")
	if p.depth++; p.depth > maxProtoDepth {
		p.fail("messages are nested deeper than %d levels", maxProtoDepth)
	}
	for p.next.kind != protoEnd && !p.sign("}") {
		switch {
		case p.sign(";"):
		case p.sign("message"):
			m.NestedType = append(m.NestedType, p.message())
		case p.sign("enum"):
			m.EnumType = append(m.EnumType, p.enum())
		case p.sign("oneof"):
			p.oneof(m)
		case p.sign("extend"):
			p.word(true)
			p.block()
		case p.sign("option"):
			if p.next.text == "message_set_wire_format" {
				p.fail("message sets are not supported")
			}
			p.rest()
		case p.sign("reserved"), p.sign("extensions"):
			p.rest()
		case p.sign("map"):
			entries = append(entries, p.mapField(m))
		default:
			p.field(m, nil)
		}
	}
	p.depth--
	m.NestedType = append(m.NestedType, entries...)
	optionalOneofs(m)
	return m
}

// optionalOneofs gives each optional field of proto3 a oneof of its own, behind all others.
func optionalOneofs(m *descriptorpb.DescriptorProto) {
	for _, f := range m.Field {
		if f.GetProto3Optional() {
			f.OneofIndex = proto.Int32(int32(len(m.OneofDecl))) //nolint:gosec // bounded by the text
			m.OneofDecl = append(m.OneofDecl, &descriptorpb.OneofDescriptorProto{Name: proto.String("_" + f.GetName())})
		}
	}
}

func (p *protoParser) oneof(m *descriptorpb.DescriptorProto) {
	index := proto.Int32(int32(len(m.OneofDecl))) //nolint:gosec // bounded by the text
	m.OneofDecl = append(m.OneofDecl, &descriptorpb.OneofDescriptorProto{Name: proto.String(p.word(false))})
	p.need("{")
	for p.next.kind != protoEnd && !p.sign("}") {
		switch {
		case p.sign(";"):
		case p.sign("option"):
			p.rest()
		default:
			p.field(m, index)
		}
	}
}

func (p *protoParser) field(m *descriptorpb.DescriptorProto, oneof *int32) {
	f := &descriptorpb.FieldDescriptorProto{Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(), OneofIndex: oneof}
	switch {
	case oneof != nil:
	case p.sign("repeated"):
		f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	case p.sign("required"):
		f.Label = descriptorpb.FieldDescriptorProto_LABEL_REQUIRED.Enum()
	case p.sign("optional"):
		if p.file.GetSyntax() == "proto3" {
			f.Proto3Optional = proto.Bool(true)
		}
	}
	if p.next.text == "group" {
		p.fail("groups are not supported")
	}
	p.typeOf(f)
	f.Name = proto.String(p.word(false))
	p.numbered(f)
	m.Field = append(m.Field, f)
}

// typeOf reads the type of a field. Whether a name is that of a message or of an enum is
// found out later.
func (p *protoParser) typeOf(f *descriptorpb.FieldDescriptorProto) {
	name := p.word(true)
	if number, scalar := descriptorpb.FieldDescriptorProto_Type_value["TYPE_"+strings.ToUpper(name)]; scalar &&
		name == strings.ToLower(name) && name != "message" && name != "enum" && name != "group" {
		f.Type = descriptorpb.FieldDescriptorProto_Type(number).Enum()
		return
	}
	f.TypeName = &name
}

// numbered reads what follows the name of a field.
func (p *protoParser) numbered(f *descriptorpb.FieldDescriptorProto) {
	p.need("=")
	f.Number = proto.Int32(p.number())
	if p.sign("[") {
		for more := true; more && p.fault == nil; more = p.sign(",") {
			p.option(f)
		}
		p.need("]")
	}
	p.need(";")
}

func (p *protoParser) number() int32 {
	negative := p.sign("-")
	text := p.next.text
	if negative {
		text = "-" + text
	}
	n, err := strconv.ParseInt(text, 0, 32)
	if p.next.kind != protoNumber || err != nil {
		p.unexpected("a whole number")
		return 0
	}
	p.advance()
	return int32(n)
}

// option reads one option of a field. Most say nothing about the data.
func (p *protoParser) option(f *descriptorpb.FieldDescriptorProto) {
	name := p.next.text
	if p.next.kind != protoWord { // (custom.option).field
		name = ""
	}
	for p.next.kind != protoEnd && !p.sign("=") {
		p.advance()
	}
	switch name {
	case "packed":
		f.Options = &descriptorpb.FieldOptions{Packed: proto.Bool(p.word(false) == "true")}
	case "json_name":
		f.JsonName = proto.String(p.quoted())
	case "default":
		f.DefaultValue = proto.String(p.preset(f))
	default:
		if p.next.kind == protoSign && p.next.text == "{" {
			p.block()
			return
		}
		p.sign("-")
		if p.next.kind == protoText { // which may have several parts
			p.quoted()
			return
		}
		p.advance()
	}
}

// preset returns a default in the form that descriptors have.
func (p *protoParser) preset(f *descriptorpb.FieldDescriptorProto) string {
	if p.next.kind == protoText {
		text := p.quoted()
		if f.GetType() == descriptorpb.FieldDescriptorProto_TYPE_BYTES {
			quoted := strconv.QuoteToASCII(text)
			return quoted[1 : len(quoted)-1]
		}
		return text
	}
	sign := ""
	if p.sign("-") {
		sign = "-"
	}
	return sign + p.take().text
}

// mapField reads a map and returns the message that stands for one of its entries.
func (p *protoParser) mapField(m *descriptorpb.DescriptorProto) *descriptorpb.DescriptorProto {
	optional := descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL
	key := &descriptorpb.FieldDescriptorProto{Name: proto.String("key"), Number: proto.Int32(1), Label: optional.Enum()}
	value := &descriptorpb.FieldDescriptorProto{Name: proto.String("value"), Number: proto.Int32(2), Label: optional.Enum()}
	p.need("<")
	p.typeOf(key)
	p.need(",")
	p.typeOf(value)
	p.need(">")
	name := p.word(false)
	entry := entryName(name)
	f := &descriptorpb.FieldDescriptorProto{
		Name: &name, TypeName: &entry,
		Label: descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum(),
		Type:  descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(),
	}
	p.numbered(f)
	m.Field = append(m.Field, f)
	return &descriptorpb.DescriptorProto{
		Name: &entry, Field: []*descriptorpb.FieldDescriptorProto{key, value},
		Options: &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)},
	}
}

// entryName is the name that the Protobuf compiler gives the entries of a map.
func entryName(field string) string {
	var b strings.Builder
	for _, part := range strings.Split(field, "_") {
		if part != "" {
			b.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return b.String() + "Entry"
}

func (p *protoParser) enum() *descriptorpb.EnumDescriptorProto {
	e := &descriptorpb.EnumDescriptorProto{Name: proto.String(p.word(false))}
	p.need("{")
	for p.next.kind != protoEnd && !p.sign("}") {
		switch {
		case p.sign(";"):
		case p.sign("option"):
			if p.sign("allow_alias") && p.sign("=") && p.sign("true") {
				e.Options = &descriptorpb.EnumOptions{AllowAlias: proto.Bool(true)}
			}
			p.rest()
		case p.sign("reserved"):
			p.rest()
		default:
			v := &descriptorpb.EnumValueDescriptorProto{Name: proto.String(p.word(false))}
			f := &descriptorpb.FieldDescriptorProto{}
			p.numbered(f)
			v.Number = f.Number
			e.Value = append(e.Value, v)
		}
	}
	return e
}

var errNoMessage = errors.New("the schema has no message")
