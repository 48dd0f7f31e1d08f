package transform

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

var errTooLarge = fmt.Errorf("the result is larger than %d bytes", celMaxResult)

// appendJSON writes a result of CEL as JSON: values of the record as they are written
// there, maps in the order of their keys, bytes in base64, times as in RFC 3339, durations
// in seconds.
func appendJSON(b []byte, value ref.Val) ([]byte, error) {
	if len(b) > celMaxResult {
		return nil, errTooLarge
	}
	switch v := value.(type) {
	case celObject:
		return appendRaw(b, v.doc)
	case celArray:
		return appendRaw(b, v.doc)
	case celLiteral:
		return append(b, v.raw...), nil
	case types.Null:
		return append(b, "null"...), nil
	case types.Bool:
		return strconv.AppendBool(b, bool(v)), nil
	case types.Int:
		return strconv.AppendInt(b, int64(v), 10), nil
	case types.Uint:
		return strconv.AppendUint(b, uint64(v), 10), nil
	case types.Double:
		return appendDouble(b, float64(v))
	case types.String:
		if len(v) > celMaxResult {
			return nil, errTooLarge
		}
		return appendQuoted(b, string(v)), nil
	case types.Bytes:
		b = append(b, '"')
		return append(base64.StdEncoding.AppendEncode(b, v), '"'), nil
	case types.Timestamp:
		return appendQuoted(b, v.Time.UTC().Format(time.RFC3339Nano)), nil
	case types.Duration:
		return appendQuoted(b, strconv.FormatFloat(v.Duration.Seconds(), 'f', -1, 64)+"s"), nil
	case *types.Optional:
		if !v.HasValue() {
			return append(b, "null"...), nil
		}
		return appendJSON(b, v.GetValue())
	case traits.Lister:
		return appendList(b, v)
	case traits.Mapper:
		return appendMap(b, v)
	case *types.Err:
		return nil, v
	}
	return nil, fmt.Errorf("a %s has no form in JSON", value.Type().TypeName())
}

func appendRaw(b, raw []byte) ([]byte, error) {
	if len(b)+len(raw) > celMaxResult {
		return nil, errTooLarge
	}
	return append(b, raw...), nil
}

func appendList(b []byte, list traits.Lister) ([]byte, error) {
	var err error
	b = append(b, '[')
	first := true
	for it := list.Iterator(); it.HasNext() == types.True; first = false {
		if !first {
			b = append(b, ',')
		}
		if b, err = appendJSON(b, it.Next()); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

func appendMap(b []byte, m traits.Mapper) ([]byte, error) {
	keys := sortedKeys(m)
	b = append(b, '{')
	for i, key := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		name, ok := key.(types.String)
		if !ok {
			return nil, fmt.Errorf("a map with a key of type %s has no form in JSON: its keys are strings", key.Type().TypeName())
		}
		value, found := m.Find(key)
		if !found {
			return nil, errors.New("a map lost a key")
		}
		var err error
		if b, err = appendJSON(append(appendQuoted(b, string(name)), ':'), value); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// appendDouble writes the shortest text that reads as the same number.
func appendDouble(b []byte, f float64) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, fmt.Errorf("the number %g has no form in JSON", f)
	}
	format := byte('f')
	if size := math.Abs(f); size != 0 && (size < 1e-6 || size >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(b, f, format, -1, 64), nil
}
