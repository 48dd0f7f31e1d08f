package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/eosbridge/eosbridge/transform"
)

// readCases reads a file of cases.
func readCases(content []byte) (chain string, cases []trialCase, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var document yaml.Node
	if err := decoder.Decode(&document); err != nil {
		if errors.Is(err, io.EOF) {
			return "", nil, errors.New("the file is empty: it has to list cases")
		}
		return "", nil, err
	}
	if err := decoder.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return "", nil, errors.New("a second document follows: put all cases into one")
	}
	fields, err := fieldsOf(document.Content[0], "the file", "chain", "cases")
	if err != nil {
		return "", nil, err
	}
	if node := fields["chain"]; node != nil {
		if node.Kind != yaml.ScalarNode {
			return "", nil, fmt.Errorf("line %d: the chain is a text: put it in quotes or write it behind |", node.Line)
		}
		chain = node.Value
	}
	list := fields["cases"]
	if list == nil || list.Kind != yaml.SequenceNode || len(list.Content) == 0 {
		return "", nil, errors.New("there is no list named cases")
	}
	for i, node := range list.Content {
		one, err := readCase(node, i)
		if err != nil {
			return "", nil, err
		}
		cases = append(cases, one)
	}
	return chain, cases, nil
}

// fieldsOf returns the values of a mapping that may have these names and no others.
func fieldsOf(node *yaml.Node, what string, names ...string) (map[string]*yaml.Node, error) {
	node = resolved(node)
	if node.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: %s has to be a mapping with %s", node.Line, what, strings.Join(names, ", "))
	}
	fields := map[string]*yaml.Node{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, known := node.Content[i], false
		for _, allowed := range names {
			known = known || name.Value == allowed
		}
		switch {
		case !known:
			return nil, fmt.Errorf("line %d: unknown name %q: %s may have %s", name.Line, name.Value, what, strings.Join(names, ", "))
		case fields[name.Value] != nil:
			return nil, fmt.Errorf("line %d: %s is there twice", name.Line, name.Value)
		}
		fields[name.Value] = resolved(node.Content[i+1])
	}
	return fields, nil
}

// resolved follows an alias.
func resolved(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

func readCase(node *yaml.Node, nth int) (trialCase, error) {
	one := trialCase{line: node.Line}
	fields, err := fieldsOf(node, "a case", "name", "input", "output", "error")
	if err != nil {
		return one, err
	}
	one.name = fmt.Sprintf("case %d", nth+1)
	if name := fields["name"]; name != nil {
		one.name = name.Value
	}
	in, out, refusal := fields["input"], fields["output"], fields["error"]
	switch {
	case in == nil:
		return one, fmt.Errorf("line %d: the case has no input", node.Line)
	case (out == nil) == (refusal == nil):
		return one, fmt.Errorf("line %d: a case has either an output, which may be [], or an error", node.Line)
	}
	if refusal != nil {
		one.refused, one.refusal = true, refusal.Value
	} else if one.output, err = readRecords(out); err != nil {
		return one, err
	}
	input, err := readRecords(in)
	if err != nil {
		return one, err
	}
	for i := range input {
		r, err := input[i].over(firstBase(int64(i)))
		if err != nil {
			return one, fmt.Errorf("line %d: input %d: %w", in.Line, i+1, err)
		}
		one.input = append(one.input, r)
	}
	for i := range one.output {
		if _, err := one.output[i].over(transform.Record{}); err != nil {
			return one, fmt.Errorf("line %d: output %d: %w", out.Line, i+1, err)
		}
	}
	return one, nil
}

// readRecords reads one record or a list of them.
func readRecords(node *yaml.Node) ([]recordText, error) {
	list := []*yaml.Node{node}
	if node.Kind == yaml.SequenceNode {
		list = node.Content
	}
	var all []recordText
	for _, one := range list {
		var w yamlWriter
		if err := w.value(one, 0); err != nil {
			return nil, err
		}
		text, err := decodeRecord(w.json)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", one.Line, err)
		}
		all = append(all, text)
	}
	return all, nil
}

// yamlWriter writes YAML as JSON without spaces: names in their order, numbers as they are written.
type yamlWriter struct{ json []byte }

// maxYAML bounds a record in bytes, and maxNesting its depth: aliases may stand for very much, or for themselves.
const (
	maxYAML    = 64 << 20
	maxNesting = 1000
)

func (w *yamlWriter) value(node *yaml.Node, depth int) error {
	node = resolved(node)
	if len(w.json) > maxYAML || depth > maxNesting {
		return fmt.Errorf("line %d: the record is larger than %d bytes or nests deeper than %d", node.Line, maxYAML, maxNesting)
	}
	switch node.Kind {
	case yaml.MappingNode:
		return w.mapping(node, depth)
	case yaml.SequenceNode:
		w.json = append(w.json, '[')
		for i, element := range node.Content {
			if i > 0 {
				w.json = append(w.json, ',')
			}
			if err := w.value(element, depth+1); err != nil {
				return err
			}
		}
		w.json = append(w.json, ']')
		return nil
	case yaml.ScalarNode:
		return w.scalar(node)
	case yaml.DocumentNode, yaml.AliasNode:
	}
	return fmt.Errorf("line %d: a value has to stand here", node.Line)
}

func (w *yamlWriter) mapping(node *yaml.Node, depth int) error {
	w.json = append(w.json, '{')
	for i := 0; i+1 < len(node.Content); i += 2 {
		name := resolved(node.Content[i])
		if name.Kind != yaml.ScalarNode || name.ShortTag() == "!!merge" {
			return fmt.Errorf("line %d: the name of a field has to be a text", name.Line)
		}
		if i > 0 {
			w.json = append(w.json, ',')
		}
		w.json = append(append(w.json, quoteJSON(name.Value)...), ':')
		if err := w.value(node.Content[i+1], depth+1); err != nil {
			return err
		}
	}
	w.json = append(w.json, '}')
	return nil
}

func (w *yamlWriter) scalar(node *yaml.Node) error {
	switch tag := node.ShortTag(); tag {
	case "!!null":
		w.json = append(w.json, "null"...)
	case "!!bool":
		w.json = append(w.json, strings.ToLower(node.Value)...)
	case "!!int", "!!float":
		if !json.Valid([]byte(node.Value)) {
			return fmt.Errorf("line %d: %s is a number of YAML and none of JSON: put it in quotes, or write it as JSON does", node.Line, node.Value)
		}
		w.json = append(w.json, node.Value...)
	case "!!str", "!!timestamp":
		w.json = append(w.json, quoteJSON(node.Value)...)
	default:
		return fmt.Errorf("line %d: the tag %s means nothing here: remove it", node.Line, tag)
	}
	return nil
}
