package transform

func init() {
	Register(Definition{
		Name:  "schema_decode",
		Usage: "schema_decode or schema_decode(key) or schema_decode(value, form: avro)",
		Doc: "Turns data that was written with a schema registry (Avro, Protobuf or JSON Schema, in Confluent's wire format) into JSON, by the schema whose id the data begins with. " +
			"Fields stand in the order of the schema, whole numbers are exact. In Avro, bytes are a string with one character up to U+00FF for each byte, a decimal is a number with all its digits, " +
			"other logical types are the number or text they are kept in, and the value of a union stands bare; form: avro gives the JSON encoding of Avro's specification, where it stands in an object with its type's name and a decimal is bytes. " +
			"Protobuf is written as its own JSON mapping has it: lowerCamelCase names, 64-bit numbers in quotes, base64; fields without presence are always there. Data of JSON Schema loses the id and is not validated. " +
			"Null stays null. SCHEMA_REGISTRY_URL says where the registry is. While it does not answer, the record waits and the epoch is aborted in the end; data that does not fit its schema, and an id that the registry does not have, are the record's fault.",
		Example: "schema_decode",
		NewWith: newSchemaDecode,
	})
}

// schemaDecode turns the key or value into JSON. Instances share the codecs.
type schemaDecode struct {
	patience
	field  recordField
	form   avroForm
	codecs *codecs
	buffer []byte
}

func newSchemaDecode(arg string, e *Environment) (Transform, error) {
	r := argReader{arg: arg}
	t := &schemaDecode{codecs: e.codecs}
	var err error
	if t.field, err = r.field(); err != nil {
		return nil, err
	}
	if r.option("form") {
		if t.form, err = r.form(); err != nil {
			return nil, err
		}
	}
	return t, r.end()
}

// Fork makes another instance with the same codecs.
func (t *schemaDecode) Fork() Transform {
	return &schemaDecode{field: t.field, form: t.form, codecs: t.codecs}
}

func (t *schemaDecode) registries() (source, target bool) { return true, false }

func (t *schemaDecode) Apply(in *Record, out []Record) ([]Record, error) {
	out = append(out, *in)
	data := t.field.of(in)
	if data == nil {
		return out, nil
	}
	id, body, err := wireID(data)
	if err != nil {
		return nil, err
	}
	c, err := t.codecs.get(t.context(), id)
	if err != nil {
		return nil, err
	}
	text, err := c.decode(t.buffer[:0], body, t.form)
	if err != nil {
		return nil, schemaFault(id, err)
	}
	t.field.set(&out[len(out)-1], append(make([]byte, 0, len(text)), text...))
	if t.buffer = text; cap(text) > 64*keepCapacity {
		t.buffer = nil
	}
	return out, nil
}
