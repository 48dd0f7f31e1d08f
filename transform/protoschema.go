package transform

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
	_ "google.golang.org/protobuf/types/known/fieldmaskpb" // a schema may import it, like the others that cel-go brings
)

// protoFile is a schema of Protobuf.
type protoFile struct {
	file  protoreflect.FileDescriptor
	types protoTypes
}

// protoFiles are a schema and what it builds upon; what comes with Protobuf itself is there,
// too.
type protoFiles struct{ own protoregistry.Files }

func (f *protoFiles) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	if found, err := protoregistry.GlobalFiles.FindFileByPath(path); err == nil && builtIn(path) {
		return found, nil
	}
	return f.own.FindFileByPath(path)
}

func (f *protoFiles) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	if strings.HasPrefix(string(name), "google.protobuf.") {
		if found, err := protoregistry.GlobalFiles.FindDescriptorByName(name); err == nil {
			return found, nil
		}
	}
	return f.own.FindDescriptorByName(name)
}

func builtIn(path string) bool { return strings.HasPrefix(path, "google/protobuf/") }

func parseProto(text string, others []namedSchema) (*protoFile, error) {
	files := &protoFiles{}
	for _, other := range others {
		if builtIn(other.from.Name) {
			continue
		}
		if _, err := files.own.FindFileByPath(other.from.Name); err == nil {
			continue // by another way, in the same or another version
		}
		if _, err := files.add(other.from.Name, other.Text); err != nil {
			return nil, fmt.Errorf("reference %q: %w", other.from.Name, err)
		}
	}
	file, err := files.add("(schema)", text)
	if err != nil {
		return nil, err
	}
	if file.Messages().Len() == 0 {
		return nil, errNoMessage
	}
	return &protoFile{file: file, types: protoTypes{dynamicpb.NewTypes(&files.own), files}}, nil
}

// add reads a file and links it with those that are there. An import that nobody has counts
// only if something of it is used: it may have brought options, which say nothing about the
// data.
func (f *protoFiles) add(name, text string) (protoreflect.FileDescriptor, error) {
	read, err := readProto(name, text)
	if err != nil {
		return nil, err
	}
	var there []string
	var public []int32
	for i, path := range read.Dependency {
		if _, err := f.FindFileByPath(path); err != nil {
			continue
		}
		for _, index := range read.PublicDependency {
			if int(index) == i {
				public = append(public, int32(len(there))) //nolint:gosec // bounded by the text
			}
		}
		there = append(there, path)
	}
	missing := len(read.Dependency) - len(there)
	read.Dependency, read.PublicDependency = there, public
	file, err := protodesc.FileOptions{}.New(read, f)
	if err == nil {
		err = f.own.RegisterFile(file)
	}
	if err != nil {
		err = protoFault("the schema cannot be used", err)
		if missing > 0 {
			err = fmt.Errorf("%w (it imports %d files that are none of its references)", err, missing)
		}
		return nil, err
	}
	return file, nil
}

// protoTypes are the types that an Any may hold: those of the schema, and built-in ones.
type protoTypes struct {
	*dynamicpb.Types
	files *protoFiles
}

// FindMessageByURL finds the type of what an Any holds.
func (t protoTypes) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	if found, err := t.Types.FindMessageByURL(url); err == nil {
		return found, nil
	}
	name := protoreflect.FullName(url[strings.LastIndexByte(url, '/')+1:])
	return t.FindMessageByName(name)
}

// FindMessageByName finds a type by its name.
func (t protoTypes) FindMessageByName(name protoreflect.FullName) (protoreflect.MessageType, error) {
	found, err := t.files.FindDescriptorByName(name)
	if err != nil {
		return nil, protoregistry.NotFound
	}
	message, ok := found.(protoreflect.MessageDescriptor)
	if !ok {
		return nil, protoregistry.NotFound
	}
	return dynamicpb.NewMessageType(message), nil
}

// message returns the message with a name, with or without the package; the first of the
// file for none.
func (f *protoFile) message(name string) (protoreflect.MessageDescriptor, error) {
	if name == "" {
		return f.file.Messages().Get(0), nil
	}
	for _, full := range []string{name, string(f.file.Package()) + "." + name} {
		found, err := f.types.files.own.FindDescriptorByName(protoreflect.FullName(full))
		if message, ok := found.(protoreflect.MessageDescriptor); ok && err == nil && message.ParentFile() == f.file && !message.IsMapEntry() {
			return message, nil
		}
	}
	return nil, fmt.Errorf("the schema has no message %q", name)
}

// A message's place in its file: how many numbers follow, then the number of a message at
// the top, of one within that, and so on, each counted from 0. A single 0 stands for the
// first message. They are written as signed varints, as Confluent's serializers do.

func appendPlace(dst []byte, m protoreflect.MessageDescriptor) []byte {
	var place []int
	for d := protoreflect.Descriptor(m); ; d = d.Parent() {
		if _, isFile := d.(protoreflect.FileDescriptor); isFile {
			break
		}
		place = append(place, d.Index())
	}
	if len(place) == 1 && place[0] == 0 {
		return append(dst, 0)
	}
	dst = binary.AppendVarint(dst, int64(len(place)))
	for i := len(place) - 1; i >= 0; i-- {
		dst = binary.AppendVarint(dst, int64(place[i]))
	}
	return dst
}

func (f *protoFile) atPlace(body []byte) (m protoreflect.MessageDescriptor, rest []byte, err error) {
	next := func() int64 {
		n, size := binary.Varint(body)
		if size <= 0 {
			err = errors.New("the data ends before it has said which message of its schema it is")
			return 0
		}
		body = body[size:]
		return n
	}
	count := next()
	if count == 0 && err == nil {
		return f.file.Messages().Get(0), body, nil
	}
	if count < 0 || count > maxProtoDepth {
		return nil, nil, fmt.Errorf("the data says which message of its schema it is in %d numbers: they are 1 to %d", count, maxProtoDepth)
	}
	messages := f.file.Messages()
	for range count {
		n := next()
		if err != nil {
			return nil, nil, err
		}
		if n < 0 || n >= int64(messages.Len()) || messages.Get(int(n)).IsMapEntry() {
			return nil, nil, fmt.Errorf("the data is of message number %d: its schema has none there", n)
		}
		m = messages.Get(int(n))
		messages = m.Messages()
	}
	return m, body, err
}

func (f *protoFile) decode(dst, body []byte) ([]byte, error) {
	kind, body, err := f.atPlace(body)
	if err != nil {
		return nil, err
	}
	message := dynamicpb.NewMessage(kind)
	options := proto.UnmarshalOptions{Resolver: f.types, RecursionLimit: maxProtoDepth}
	if err := options.Unmarshal(body, message); err != nil {
		return nil, dataFault("the data is no "+string(kind.FullName()), err)
	}
	if holdsUnknown(message) {
		return nil, fmt.Errorf("the data is no %s of its schema: it has fields that the schema does not have", kind.FullName())
	}
	text, err := protojson.MarshalOptions{Resolver: f.types, EmitDefaultValues: true}.Marshal(message)
	if err != nil {
		return nil, dataFault("there is no JSON for the data", err)
	}
	// The library puts spaces where it likes, to keep anyone from relying on its text.
	var plain bytes.Buffer
	if err := json.Compact(&plain, text); err != nil {
		return nil, err
	}
	return append(dst, plain.Bytes()...), nil
}

// holdsUnknown tells whether a message holds a field that its schema does not have: JSON would
// be without it.
func holdsUnknown(m protoreflect.Message) bool {
	if len(m.GetUnknown()) > 0 {
		return true
	}
	found := false
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			if f.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
					found = holdsUnknown(v.Message())
					return !found
				})
			}
		case f.Message() == nil:
		case f.IsList():
			for i, list := 0, v.List(); i < list.Len() && !found; i++ {
				found = holdsUnknown(list.Get(i).Message())
			}
		default:
			found = holdsUnknown(v.Message())
		}
		return !found
	})
	return found
}

func (f *protoFile) encode(dst, doc []byte, message string) ([]byte, error) {
	if _, err := jsonRoot(doc); err != nil {
		return nil, err
	}
	kind, err := f.message(message)
	if err != nil {
		return nil, err
	}
	m := dynamicpb.NewMessage(kind)
	options := protojson.UnmarshalOptions{Resolver: f.types, RecursionLimit: maxProtoDepth}
	if err := options.Unmarshal(doc, m); err != nil {
		return nil, dataFault("the value does not fit the schema", err)
	}
	out, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(appendPlace(dst, kind), m)
	if err != nil {
		return nil, dataFault("the value does not fit the schema", err)
	}
	return out, nil
}

// protoFault words an error of the library, which varies its spaces from build to build.
func protoFault(what string, err error) error {
	const most = 200
	text := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	text = strings.TrimPrefix(strings.TrimPrefix(text, "proto:"), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return fmt.Errorf("%s: %s", what, text)
}

// dataFault is protoFault for an error about data, which it takes out: messages end up in
// logs.
func dataFault(what string, err error) error {
	fault := protoFault(what, err)
	text := fault.Error()
	if at := strings.Index(text, "invalid value for "); at >= 0 {
		if end := strings.Index(text[at:], ": "); end >= 0 {
			text = text[:at+end]
		}
		return errors.New(text)
	}
	if at := strings.IndexByte(text, '"'); at >= 0 && !strings.Contains(text[:at], "unknown field ") {
		return errors.New(strings.TrimRight(text[:at], " :"))
	}
	return fault
}
