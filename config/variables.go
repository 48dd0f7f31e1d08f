package config

import (
	"reflect"
	"strings"
)

// variable is what the tags of one field say.
type variable struct {
	name     string // whole name, with the prefix of its group
	group    int    // index of the group in Config
	field    int    // index of the field in the group
	goName   string
	kind     reflect.Type
	literal  string // literal default
	derived  string // words for a derived default
	required bool
	oneof    []string
	example  string
	section  string
	doc      string
}

func (v variable) secret() bool { return v.kind == reflect.TypeFor[Secret]() }

// of returns the variable's field of a configuration.
func (v variable) of(c *Config) reflect.Value {
	return reflect.ValueOf(c).Elem().Field(v.group).Field(v.field)
}

// variables returns every known variable in the order of the struct, which is also that of the reference page.
func variables() []variable {
	var list []variable
	whole := reflect.TypeFor[Config]()
	for g := range whole.NumField() {
		group := whole.Field(g)
		prefix, ok := group.Tag.Lookup("envPrefix")
		if !ok {
			continue
		}
		for f := range group.Type.NumField() {
			field := group.Type.Field(f)
			v := variable{
				name:     prefix + field.Tag.Get("env"),
				group:    g,
				field:    f,
				goName:   field.Name,
				kind:     field.Type,
				literal:  field.Tag.Get("envDefault"),
				derived:  field.Tag.Get("default"),
				required: field.Tag.Get("required") == "true",
				example:  field.Tag.Get("example"),
				section:  field.Tag.Get("section"),
				doc:      field.Tag.Get("doc"),
			}
			if title := group.Tag.Get("section"); title != "" && f == 0 {
				v.section = title
			}
			if words := field.Tag.Get("oneof"); words != "" {
				v.oneof = strings.Split(words, "|")
			}
			list = append(list, v)
		}
	}
	return list
}
