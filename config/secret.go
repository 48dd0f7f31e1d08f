package config

import (
	"fmt"
	"io"
	"log/slog"
)

// mask is what every printer shows in place of a secret. Its length tells nothing.
const mask = "***"

// Secret is text that must not be shown. Every usual way to print it, alone or inside an exported field of a
// struct, gives ***; only Reveal and a conversion to string give the text.
//
// The language leaves three ways out: fmt does not call methods on unexported fields, so a Secret must never be
// kept in one; fmt shows the text for the verbs %w and %p, which go vet refuses for it; and encoding/json takes the text
// if a Secret is the key of a map.
type Secret string

// Reveal returns the text, to be handed to whatever authenticates with it.
func (s Secret) Reveal() string { return string(s) }

// String implements fmt.Stringer.
func (Secret) String() string { return mask }

// GoString implements fmt.GoStringer.
func (Secret) GoString() string { return mask }

// Format implements fmt.Formatter: no verb shows more than the others.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, mask) }

// MarshalText implements encoding.TextMarshaler.
func (Secret) MarshalText() ([]byte, error) { return []byte(mask), nil }

// MarshalJSON implements json.Marshaler.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + mask + `"`), nil }

// LogValue implements slog.LogValuer.
func (Secret) LogValue() slog.Value { return slog.StringValue(mask) }
