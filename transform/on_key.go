package transform

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

func init() {
	Register(Definition{
		Name:  "on_key",
		Usage: "on_key(chain)",
		Doc: "Does to the key what the other transforms do to the value: for the chain in the parentheses the key stands in the place of the value, and the value in the place of the key. " +
			"The record is dropped, routed or becomes several as the chain says.",
		Example: "on_key(json_delete(version) | json_rename(id=customer))",
		NewWith: newOnKey,
	})
}

// onKey runs a chain of its own on records whose key and value have changed places.
type onKey struct {
	spec   *Spec
	chain  *Chain
	turned Record // for one record
}

var _ Forker = (*onKey)(nil)

func newOnKey(arg string, e *Environment) (Transform, error) {
	spec, err := registered.parse(arg, e)
	if err != nil {
		if inside, ok := errors.AsType[*ParseError](err); ok {
			return nil, errAt(byteOffset(arg, inside.Line, inside.Column-1), inside.Err)
		}
		return nil, err
	}
	switch {
	case spec.Identity():
		return nil, errors.New("the chain is missing: write between the parentheses what shall become of the key")
	case slices.ContainsFunc(spec.stages, func(s stage) bool { return s.name == "on_key" }):
		return nil, errors.New("on_key within on_key would be the value again: write that outside")
	}
	return &onKey{spec: spec, chain: spec.New()}, nil
}

// Fork makes an instance from what was read, files included, when the expression was.
func (t *onKey) Fork() Transform { return &onKey{spec: t.spec, chain: t.spec.New()} }

func (t *onKey) registries() (source, target bool) { return t.spec.Registries() }

func (t *onKey) resolve(ctx context.Context) error { return t.spec.Resolve(ctx) }

func (t *onKey) until(ctx context.Context) { t.chain.Until(ctx) }

// Targets are those of the chain.
func (t *onKey) Targets() []string { return t.spec.Targets() }

// Interpreted is that of the chain.
func (t *onKey) Interpreted() bool { return t.spec.Interpreted() }

func (t *onKey) Apply(in *Record, out []Record) ([]Record, error) {
	t.turned = *in
	t.turned.Key, t.turned.Value = in.Value, in.Key
	given := len(out)
	out, err := t.chain.Apply(&t.turned, out)
	t.turned = Record{}
	if err != nil {
		return nil, fmt.Errorf("the key, in the place of the value: %w", err)
	}
	for i := given; i < len(out); i++ {
		out[i].Key, out[i].Value = out[i].Value, out[i].Key
	}
	return out, nil
}
