package transform

import (
	"cmp"
	"errors"
	"reflect"
	"slices"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// CEL tells maps and lists by the interfaces of their values, so each kind of value here
// has a type of its own: an object of JSON, an array of JSON, the headers of a record, and
// a map made by an expression, which is wrapped because it would otherwise be iterated in
// another order on each run.
type (
	celObject  struct{ *celJSON }
	celArray   struct{ *celJSON }
	celHeaders struct{ list *[]Header }
	celSorted  struct{ traits.Mapper }
)

var (
	_ traits.Mapper = celObject{}
	_ traits.Mapper = celHeaders{}
	_ traits.Mapper = celSorted{}
	_ traits.Lister = celArray{}
)

var errNotNative = errors.New("not a Go value")

// celKeys iterates over a slice of keys or elements.
type celKeys struct {
	types.Null // an iterator is a value to CEL, but none that an expression can see
	left       []ref.Val
}

func (k *celKeys) HasNext() ref.Val { return types.Bool(len(k.left) > 0) }

func (k *celKeys) Next() ref.Val {
	next := k.left[0]
	k.left = k.left[1:]
	return next
}

// Find leaves a missing name to the caller: has() asks the same way as a selection.
func (v celObject) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return nil, false
	}
	at, err := v.find(string(name))
	if err != nil {
		return types.WrapErr(err), false
	}
	if at < 0 {
		return nil, false
	}
	value := v.value(at)
	return value, !types.IsError(value)
}

func (v celObject) Get(key ref.Val) ref.Val                    { return get(v, key) }
func (v celObject) Contains(key ref.Val) ref.Val               { return contains(v, key) }
func (v celObject) Size() ref.Val                              { return types.Int(len(v.names())) }
func (v celObject) Iterator() traits.Iterator                  { return &celKeys{left: v.names()} }
func (v celObject) Equal(other ref.Val) ref.Val                { return equalMaps(v, other) }
func (v celObject) Type() ref.Type                             { return types.MapType }
func (v celObject) Value() any                                 { return v.celJSON }
func (v celObject) ConvertToType(t ref.Type) ref.Val           { return convert(v, t) }
func (v celObject) ConvertToNative(reflect.Type) (any, error)  { return nil, errNotNative }
func (v celArray) Iterator() traits.Iterator                   { return &celKeys{left: v.elements()} }
func (v celArray) Size() ref.Val                               { return types.Int(len(v.members)) }
func (v celArray) Type() ref.Type                              { return types.ListType }
func (v celArray) Value() any                                  { return v.celJSON }
func (v celArray) ConvertToType(t ref.Type) ref.Val            { return convert(v, t) }
func (v celArray) ConvertToNative(reflect.Type) (any, error)   { return nil, errNotNative }
func (v celArray) Equal(other ref.Val) ref.Val                 { return v.list().Equal(other) }
func (v celArray) Add(other ref.Val) ref.Val                   { return v.list().(traits.Adder).Add(other) }
func (v celArray) Contains(element ref.Val) ref.Val            { return v.list().Contains(element) }
func (h celHeaders) Get(key ref.Val) ref.Val                   { return get(h, key) }
func (h celHeaders) Contains(key ref.Val) ref.Val              { return contains(h, key) }
func (h celHeaders) Size() ref.Val                             { return types.Int(len(h.names())) }
func (h celHeaders) Iterator() traits.Iterator                 { return &celKeys{left: h.names()} }
func (h celHeaders) Equal(other ref.Val) ref.Val               { return equalMaps(h, other) }
func (h celHeaders) Type() ref.Type                            { return types.MapType }
func (h celHeaders) Value() any                                { return h.headers() }
func (h celHeaders) ConvertToType(t ref.Type) ref.Val          { return convert(h, t) }
func (h celHeaders) ConvertToNative(reflect.Type) (any, error) { return nil, errNotNative }
func (m celSorted) Iterator() traits.Iterator                  { return &celKeys{left: sortedKeys(m.Mapper)} }

// list is the array with CEL's own operations.
func (v celArray) list() traits.Lister {
	return types.NewRefValList(types.DefaultTypeAdapter, v.elements())
}

// Get is asked only for places that exist.
func (v celArray) Get(index ref.Val) ref.Val {
	i, err := types.GetOrError(index)
	if err != nil {
		return types.WrapErr(err)
	}
	if i < 0 || i >= len(v.members) {
		return types.NewErr("index %d is out of bounds: the list has %d elements", i, len(v.members))
	}
	return v.value(i)
}

// headers returns the record's.
func (h celHeaders) headers() []Header { return *h.list }

// Find returns the last header of a name, as lastHeader does in Kafka's clients.
func (h celHeaders) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return nil, false
	}
	_, last := countHeaders(h.headers(), string(name))
	if last < 0 {
		return nil, false
	}
	return celText(h.headers()[last].Value), true
}

// names returns each name once, in the order of the record.
func (h celHeaders) names() []ref.Val {
	names := make([]ref.Val, 0, len(h.headers()))
	seen := make(map[string]bool, len(h.headers()))
	for _, header := range h.headers() {
		if !seen[header.Key] {
			seen[header.Key] = true
			names = append(names, types.String(header.Key))
		}
	}
	return names
}

// celText is the value of bytes that Kafka does not look into: null or a string.
func celText(b []byte) ref.Val {
	if b == nil {
		return types.NullValue
	}
	return types.String(b)
}

// get, contains, equalMaps and convert are what all maps and lists have in common.
func get(m traits.Mapper, key ref.Val) ref.Val {
	value, found := m.Find(key)
	if !found {
		return types.ValOrErr(value, "no such key: %v", key)
	}
	return value
}

func contains(m traits.Mapper, key ref.Val) ref.Val {
	value, found := m.Find(key)
	if !found && types.IsError(value) {
		return value
	}
	return types.Bool(found)
}

func equalMaps(m traits.Mapper, other ref.Val) ref.Val {
	o, ok := other.(traits.Mapper)
	if !ok || m.Size() != o.Size() {
		return types.False
	}
	for it := m.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		mine, found := m.Find(key)
		if !found {
			return types.ValOrErr(mine, "no such key: %v", key)
		}
		theirs, found := o.Find(key)
		if !found {
			if types.IsError(theirs) {
				return theirs
			}
			return types.False
		}
		if same := types.Equal(mine, theirs); same != types.True {
			return same
		}
	}
	return types.True
}

func convert(v ref.Val, to ref.Type) ref.Val {
	switch to {
	case v.Type():
		return v
	case types.TypeType:
		return v.Type().(ref.Val)
	}
	return types.NewErr("a %s does not convert to %s", v.Type().TypeName(), to.TypeName())
}

// sortedKeys orders the keys of a map that an expression made: by type, then by value.
func sortedKeys(m traits.Mapper) []ref.Val {
	var keys []ref.Val
	for it := m.Iterator(); it.HasNext() == types.True; {
		keys = append(keys, it.Next())
	}
	slices.SortFunc(keys, func(a, b ref.Val) int {
		if byType := cmp.Compare(a.Type().TypeName(), b.Type().TypeName()); byType != 0 {
			return byType
		}
		if comparer, ok := a.(traits.Comparer); ok {
			if order, ok := comparer.Compare(b).(types.Int); ok {
				return int(order)
			}
		}
		return 0
	})
	return keys
}

// sortMaps wraps each place in a program where a map is made.
func sortMaps(node interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	if c, ok := node.(interpreter.InterpretableConstructor); ok && c.Type() == types.MapType {
		return sortedMap{node}, nil
	}
	return node, nil
}

type sortedMap struct{ interpreter.InterpretableV2 }

// Exec evaluates the map.
func (s sortedMap) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	made := s.InterpretableV2.Exec(frame)
	if m, ok := made.(traits.Mapper); ok {
		return celSorted{m}
	}
	return made
}

// Eval evaluates the map where an older part of the library asks for it.
func (s sortedMap) Eval(vars interpreter.Activation) ref.Val {
	made := s.InterpretableV2.Eval(vars)
	if m, ok := made.(traits.Mapper); ok {
		return celSorted{m}
	}
	return made
}
