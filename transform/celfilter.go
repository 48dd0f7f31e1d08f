package transform

import "cel.dev/cel-go/cel"

func init() {
	Register(Definition{
		Name:  "filter",
		Usage: "filter(condition)",
		Doc: "Keeps the records for which a condition in CEL holds. Its variables are key, value (JSON, of which only the fields asked for are decoded), " +
			"text (the value as it is), headers, topic, partition, offset and timestamp. A field that is missing is an error: has(value.x) asks for it, and value == null for a tombstone.",
		Example: `filter(value != null && value.region == "eu" && value.amount > 100)`,
		New:     newCelFilter,
	})
}

// celFilter keeps records for which an expression is true.
type celFilter struct{ condition *celExpression }

func newCelFilter(arg string) (Transform, error) {
	condition, err := newCelExpression(arg, 0)
	if err != nil {
		return nil, err
	}
	return &celFilter{condition}, condition.gives(0, cel.BoolType)
}

func (t *celFilter) share(scan *celScan) { t.condition.vars.scan = scan }

func (t *celFilter) Apply(in *Record, out []Record) ([]Record, error) {
	keep, err := t.condition.condition(in)
	if keep {
		out = append(out, *in)
	}
	return out, err
}
