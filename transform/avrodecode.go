package transform

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// avroForm is how JSON stands for what Avro has and JSON has not.
type avroForm int

const (
	// avroPlain: the value of a union stands bare, a decimal is a number.
	avroPlain avroForm = iota
	// avroOwn is the JSON encoding of Avro's specification: the value of a union stands in
	// an object with the name of its type, a decimal is the bytes it is kept in.
	avroOwn
	// avroPreset is that of defaults in a schema: as avroOwn, but unions stand bare.
	avroPreset
)

// maxDecimal bounds a decimal in bytes and in digits: the cost of its text grows faster than
// its length.
const maxDecimal = 1000

var (
	errAvroShort  = errors.New("the data ends too early")
	errAvroVarint = errors.New("a number is longer than 64 bits")
)

// avroReader turns binary data into JSON, from the first byte to the last.
type avroReader struct {
	data  []byte // what is left
	out   []byte
	start int // of the result in out
	form  avroForm
	depth int
}

// decode appends the JSON of data, which has to be used up.
func (t *avroType) decode(dst, data []byte, form avroForm) ([]byte, error) {
	r := avroReader{data: data, out: dst, start: len(dst), form: form}
	if err := r.value(t); err != nil {
		return nil, avroFault(fmt.Sprintf("the data does not fit its schema at byte %d", len(data)-len(r.data)), err)
	}
	if len(r.data) > 0 {
		return nil, fmt.Errorf("the data does not fit its schema: %d bytes are left over", len(r.data))
	}
	return r.out, nil
}

// avroFault bounds an error, which has the names of all fields on the way.
func avroFault(what string, err error) error {
	const most = 500
	text := err.Error()
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most/2], "") + " … " + strings.ToValidUTF8(text[len(text)-most/2:], "")
	}
	return fmt.Errorf("%s: %s", what, text)
}

func (r *avroReader) value(t *avroType) error {
	if r.depth == maxAvroDepth {
		return errAvroDeep
	}
	if len(r.out)-r.start > maxResult {
		return errResultTooLarge
	}
	r.depth++
	err := r.known(t)
	r.depth--
	return err
}

func (r *avroReader) known(t *avroType) error {
	switch t.kind {
	case avroNull:
		r.out = append(r.out, "null"...)
		return nil
	case avroBoolean:
		return r.boolean()
	case avroInt, avroLong:
		n, err := r.long()
		if err == nil && t.kind == avroInt && int64(int32(n)) != n { //nolint:gosec // that is what is compared
			err = fmt.Errorf("%d is no int, which has 32 bits", n)
		}
		r.out = strconv.AppendInt(r.out, n, 10)
		return err
	case avroFloat:
		raw, err := r.take(4)
		if err == nil {
			r.float(float64(math.Float32frombits(binary.LittleEndian.Uint32(raw))), 32)
		}
		return err
	case avroDouble:
		raw, err := r.take(8)
		if err == nil {
			r.float(math.Float64frombits(binary.LittleEndian.Uint64(raw)), 64)
		}
		return err
	case avroBytes, avroString:
		raw, err := r.counted()
		if err != nil {
			return err
		}
		return r.text(t, raw)
	case avroFixed:
		raw, err := r.take(int64(t.size))
		if err != nil {
			return err
		}
		return r.text(t, raw)
	case avroEnum:
		n, err := r.index(len(t.symbols), "symbols")
		if err == nil {
			r.out = appendQuoted(r.out, t.symbols[n])
		}
		return err
	case avroArray, avroMap:
		return r.blocks(t)
	case avroUnion:
		return r.union(t)
	case avroRecord:
		return r.record(t)
	}
	return fmt.Errorf("unknown kind %s", t.kind)
}

func (r *avroReader) boolean() error {
	raw, err := r.take(1)
	switch {
	case err != nil:
		return err
	case raw[0] > 1:
		return fmt.Errorf("a boolean is the byte %d: it has to be 0 or 1", raw[0])
	}
	r.out = strconv.AppendBool(r.out, raw[0] == 1)
	return nil
}

func (r *avroReader) take(n int64) ([]byte, error) {
	if n < 0 || n > int64(len(r.data)) {
		return nil, errAvroShort
	}
	raw := r.data[:n]
	r.data = r.data[n:]
	return raw, nil
}

func (r *avroReader) long() (int64, error) {
	n, size := binary.Varint(r.data)
	switch {
	case size == 0:
		return 0, errAvroShort
	case size < 0:
		return 0, errAvroVarint
	}
	r.data = r.data[size:]
	return n, nil
}

// counted takes bytes with their number in front.
func (r *avroReader) counted() ([]byte, error) {
	n, err := r.long()
	if err != nil {
		return nil, err
	}
	return r.take(n)
}

func (r *avroReader) index(count int, of string) (int, error) {
	n, err := r.long()
	if err == nil && (n < 0 || n >= int64(count)) {
		err = fmt.Errorf("number %d of %d %s", n, count, of)
	}
	return int(n), err
}

// text writes a string, or bytes, of which each stands for the character with its number.
func (r *avroReader) text(t *avroType, raw []byte) error {
	switch {
	case t.kind == avroString:
		if !utf8.Valid(raw) {
			return errors.New("a string is no UTF-8")
		}
		r.out = appendQuoted(r.out, raw)
		return nil
	case t.decimal && r.form == avroPlain:
		return r.decimal(t, raw)
	}
	r.out = append(r.out, '"')
	for i, c := range raw {
		if c < utf8.RuneSelf {
			quoted := len(r.out)
			r.out = appendQuoted(r.out, raw[i:i+1])
			r.out = append(r.out[:quoted], r.out[quoted+1:len(r.out)-1]...)
		} else {
			r.out = utf8.AppendRune(r.out, rune(c))
		}
	}
	r.out = append(r.out, '"')
	return nil
}

// decimal writes a number with exactly as many digits behind the point as its schema says.
func (r *avroReader) decimal(t *avroType, raw []byte) error {
	if len(raw) > maxDecimal || t.scale > maxDecimal {
		return fmt.Errorf("a decimal of %d bytes and scale %d: up to %d are read", len(raw), t.scale, maxDecimal)
	}
	n := new(big.Int).SetBytes(raw)
	if len(raw) > 0 && raw[0] >= 0x80 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(raw))))
	}
	digits := n.Append(nil, 10)
	if n.Sign() < 0 {
		r.out = append(r.out, '-')
		digits = digits[1:]
	}
	whole := len(digits) - t.scale
	if whole <= 0 {
		r.out = append(r.out, '0')
	} else {
		r.out = append(r.out, digits[:whole]...)
		digits = digits[whole:]
	}
	if t.scale > 0 {
		r.out = append(r.out, '.')
		for range -whole {
			r.out = append(r.out, '0')
		}
		r.out = append(r.out, digits...)
	}
	return nil
}

// float writes the shortest number that is read as the same one. What is no number of JSON
// is a string, as Avro's own tools for Java have it.
func (r *avroReader) float(f float64, bits int) {
	switch {
	case math.IsNaN(f):
		r.out = append(r.out, `"NaN"`...)
	case math.IsInf(f, 1):
		r.out = append(r.out, `"Infinity"`...)
	case math.IsInf(f, -1):
		r.out = append(r.out, `"-Infinity"`...)
	default:
		format := byte('f')
		if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
			format = 'e'
		}
		r.out = strconv.AppendFloat(r.out, f, format, -1, bits)
	}
}

// blocks reads the items of an array or map, which come in blocks.
func (r *avroReader) blocks(t *avroType) error {
	open, closing := byte('['), byte(']')
	if t.kind == avroMap {
		open, closing = '{', '}'
	}
	r.out = append(r.out, open)
	for first := true; ; {
		count, err := r.long()
		if err != nil {
			return err
		}
		if count == 0 {
			r.out = append(r.out, closing)
			return nil
		}
		if count < 0 { // and then the block's size in bytes, for those who skip it
			count = -count // the least of all stays negative: no item, and then most likely no end
			if _, err := r.long(); err != nil {
				return err
			}
		}
		for ; count > 0; count-- {
			if !first {
				r.out = append(r.out, ',')
			}
			first = false
			if t.kind == avroMap {
				name, err := r.counted()
				if err != nil {
					return err
				}
				if !utf8.Valid(name) {
					return errors.New("the name of a map's entry is no UTF-8")
				}
				r.out = append(appendQuoted(r.out, name), ':')
			}
			if err := r.value(t.item); err != nil {
				return err
			}
		}
	}
}

func (r *avroReader) union(t *avroType) error {
	n, err := r.index(len(t.branches), "branches of a union")
	if err != nil {
		return err
	}
	branch := t.branches[n]
	if r.form != avroOwn || branch.kind == avroNull {
		return r.value(branch)
	}
	r.out = append(r.out, '{')
	r.out = append(appendQuoted(r.out, branch.name), ':')
	if err := r.value(branch); err != nil {
		return err
	}
	r.out = append(r.out, '}')
	return nil
}

func (r *avroReader) record(t *avroType) error {
	r.out = append(r.out, '{')
	for i := range t.fields {
		f := &t.fields[i]
		if i > 0 {
			r.out = append(r.out, ',')
		}
		r.out = append(appendQuoted(r.out, f.name), ':')
		if err := r.value(f.typ); err != nil {
			return fmt.Errorf("field %s: %w", f.name, err)
		}
	}
	r.out = append(r.out, '}')
	return nil
}
