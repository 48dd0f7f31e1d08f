package transform

const identityName = "identity"

func init() {
	Register(Definition{
		Name:    identityName,
		Usage:   "identity",
		Doc:     "Lets every record through as it is. The same as an empty expression, for those who prefer to say so.",
		Example: "identity",
		New:     newIdentity,
	})
}

// identity lets every record through. Chains leave it out; it works by itself all the same.
type identity struct{}

func newIdentity(arg string) (Transform, error) { return identity{}, noArgument(arg) }

func (identity) Apply(in *Record, out []Record) ([]Record, error) { return append(out, *in), nil }
