package transform

func init() {
	Register(Definition{
		Name:  "drop_tombstones",
		Usage: "drop_tombstones",
		Doc: "Drops records whose value is null. A value that is empty but not null stays. " +
			"Do not use it in front of a compacted topic that shall forget deleted keys.",
		Example: "drop_tombstones",
		New:     newDropTombstones,
	})
}

// dropTombstones drops records with a null value, Kafka's mark of a deleted key.
type dropTombstones struct{}

func newDropTombstones(arg string) (Transform, error) { return dropTombstones{}, noArgument(arg) }

func (dropTombstones) Apply(in *Record, out []Record) ([]Record, error) {
	if in.Value == nil {
		return out, nil
	}
	return append(out, *in), nil
}
