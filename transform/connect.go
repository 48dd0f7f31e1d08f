package transform

import "strings"

// counterpart says what does here what a single message transform of Kafka Connect does.
type counterpart struct {
	connect string // its class name, without the package and $Key or $Value
	ours    string // for the table in docs/transforms.md; every name in back quotes is registered
}

// counterparts are the transforms and predicates of Apache Kafka, then widely used ones of others.
var counterparts = []counterpart{ //nolint:gochecknoglobals // a table
	{"Cast", "`json_cast(amount=number)`"},
	{"DropHeaders", "`drop_header(name)`"},
	{"ExtractField", "`json_extract(path)`, or `json_extract(path, bare)` for a string without its quotes"},
	{"Filter", "`filter(condition)`; the predicates RecordIsTombstone, HasHeaderKey and TopicNameMatches are `drop_tombstones`, `filter_header(name)` and `filter(topic == \"x\")`"},
	{"Flatten", "`json_flatten(_)`"},
	{"HeaderFrom", "`header_from_json(name=path)`, with `json_delete(path)` behind it to move the field"},
	{"HoistField", "`json_hoist(name)`"},
	{"InsertField", "`json_set(path=value)` for a fixed value, `json_insert(path=offset)` for topic, partition, offset, timestamp, key or a header"},
	{"InsertHeader", "`set_header(name=value)`"},
	{"MaskField", "`json_mask(path)`, with: for another replacement, secret: for a keyed hash"},
	{"RegexRouter", "`route_by_topic(input=topic, ...)`, or `route_to(topic, ...: expression)`: the topics are listed, since all of them are looked up at the start"},
	{"ReplaceField", "`json_delete(path, ...)` to exclude, `json_keep(path, ...)` to include, `json_rename(path=name, ...)` for renames"},
	{"SetSchemaMetadata", "does not apply: records are bytes and carry no schema of Connect"},
	{"TimestampConverter", "`json_time(path, unix_ms, rfc3339)`"},
	{"TimestampRouter", "does not apply: the topics it would name are not known at the start"},
	{"ValueToKey", "`key_from_json(path, ...)`"},
	{"AvroConverter", "`schema_decode` to read, `schema_encode(subject: name)` to write; the same for ProtobufConverter and JsonSchemaConverter"},
	{"ByLogicalTableRouter", "`route_by_topic(input=topic, ...)`"},
	{"ContentBasedRouter", "`route_if(topic: condition)`"},
	{"Drop", "`drop_tombstones`, `filter(condition)`"},
	{"ExtractNewRecordState", "`json_extract(after)`; a deletion, whose after is null, has to be dealt with before: `filter(value.op != \"d\")`"},
	{"ExtractTopic", "`route_by_json(path, value=topic, ...)`"},
	{"GzipDecompress", "`decompress(gzip)`"},
	{"MessageTimeStampRouter", "does not apply: the topics it would name are not known at the start"},
	{"SchemaRegistryTransfer", "`schema_map_id`"},
	{"TombstoneHandler", "`drop_tombstones`"},
}

// connectName finds the counterpart of a name that was written as Connect has it, with or
// without its package.
func connectName(name string) (counterpart, bool) {
	class := name[strings.LastIndexByte(name, '.')+1:]
	for _, c := range counterparts {
		if c.connect == class {
			return c, true
		}
	}
	return counterpart{}, false
}
