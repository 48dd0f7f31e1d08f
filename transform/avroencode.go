package transform

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"unicode/utf8"
)

// avroSteps bounds the work on one document, in values looked at and bytes passed over, for
// each byte of it: which branch of a union is meant is found by trying, and unions within
// unions that nearly fit could be tried for ever.
const avroSteps = 1024

var (
	errAvroSteps = errors.New("it takes too many attempts to find out which branches of its unions are meant")
	// errAvroBranch is about a value that cannot be of a branch by its kind alone.
	errAvroBranch = errors.New("the value is of another kind")
)

// avroWriter turns one JSON document, which was checked, into binary data.
type avroWriter struct {
	doc   []byte
	out   []byte
	form  avroForm
	depth int
	steps *int // left
}

// encode appends the binary form of a document.
func (t *avroType) encode(dst, doc []byte, form avroForm) ([]byte, error) {
	root, err := jsonRoot(doc)
	if err != nil {
		return nil, err
	}
	steps := 1<<20 + avroSteps*len(doc)
	w := avroWriter{doc: doc, out: dst, form: form, steps: &steps}
	if err := w.value(t, root); err != nil {
		return nil, avroFault("the value does not fit the schema", err)
	}
	return w.out, nil
}

func (w *avroWriter) spend(n int) error {
	if *w.steps -= n; *w.steps < 0 {
		return errAvroSteps
	}
	return nil
}

// value writes the value at pos.
func (w *avroWriter) value(t *avroType, pos int) error {
	if w.depth == maxAvroDepth {
		return errAvroDeep
	}
	if err := w.spend(1); err != nil {
		return err
	}
	if len(w.out) > maxResult { // a small schema's defaults can be large
		return errResultTooLarge
	}
	w.depth++
	err := w.known(t, pos)
	w.depth--
	return err
}

func (w *avroWriter) known(t *avroType, pos int) error {
	if !t.takes(w.doc[pos]) {
		return t.misfit(w.doc, pos)
	}
	switch t.kind {
	case avroNull:
		return nil
	case avroBoolean:
		bit := byte(0)
		if w.doc[pos] == 't' {
			bit = 1
		}
		w.out = append(w.out, bit)
		return nil
	case avroInt, avroLong:
		return w.integer(t, pos)
	case avroFloat, avroDouble:
		return w.float(t, pos)
	case avroBytes, avroString, avroFixed:
		return w.text(t, pos)
	case avroEnum:
		symbol := string(w.unquoted(pos))
		for i, s := range t.symbols {
			if s == symbol {
				w.long(int64(i))
				return nil
			}
		}
		return fmt.Errorf("a string is no symbol of the enum %s", t.name)
	case avroArray, avroMap:
		return w.items(t, pos)
	case avroUnion:
		return w.union(t, pos)
	case avroRecord:
		return w.record(t, pos)
	}
	return fmt.Errorf("unknown kind %s", t.kind)
}

// takes tells by the first byte of a value whether it may be of the type.
func (t *avroType) takes(c byte) bool {
	number := c == '-' || '0' <= c && c <= '9'
	switch t.kind {
	case avroNull:
		return c == 'n'
	case avroBoolean:
		return c == 't' || c == 'f'
	case avroInt, avroLong:
		return number
	case avroFloat, avroDouble:
		return number || c == '"'
	case avroString, avroEnum:
		return c == '"'
	case avroBytes, avroFixed:
		return c == '"' || number && t.decimal
	case avroArray:
		return c == '['
	case avroMap, avroRecord:
		return c == '{'
	case avroUnion:
	}
	return true
}

func (t *avroType) misfit(doc []byte, pos int) error {
	name := t.kind.String()
	if t.name != name {
		name += " " + t.name
	}
	return fmt.Errorf("%s where the schema has a value of the type %s", jsonKind(doc, pos), name)
}

func (w *avroWriter) long(n int64) { w.out = binary.AppendVarint(w.out, n) }

func (w *avroWriter) unquoted(pos int) []byte { return jsonText(w.doc[pos:jsonTextEnd(w.doc, pos)]) }

func (w *avroWriter) integer(t *avroType, pos int) error {
	raw := w.doc[pos:jsonEnd(w.doc, pos)]
	bits := 64
	if t.kind == avroInt {
		bits = 32
	}
	n, err := strconv.ParseInt(string(raw), 10, bits)
	if err != nil { // 1.0 and 1e3 are whole, too
		whole, exact := decimalDigits(raw, 0)
		if !exact {
			return fmt.Errorf("a number that is not whole where the schema has a value of the type %s", t.kind)
		}
		if n = whole.Int64(); !whole.IsInt64() || bits == 32 && int64(int32(n)) != n { //nolint:gosec // that is what is compared
			return fmt.Errorf("a number is too large for the type %s", t.kind)
		}
	}
	w.long(n)
	return nil
}

// decimalDigits returns a number of JSON times ten to the power of scale, if that is whole.
func decimalDigits(raw []byte, scale int) (digits *big.Int, exact bool) {
	var text []byte
	point, exponent := 0, 0
	for i, seenPoint := 0, false; i < len(raw); i++ {
		switch c := raw[i]; c {
		case '.':
			seenPoint = true
		case 'e', 'E':
			var err error
			if exponent, err = strconv.Atoi(string(raw[i+1:])); err != nil {
				return nil, false
			}
			i = len(raw)
		default:
			text = append(text, c)
			if seenPoint {
				point++
			}
		}
	}
	digits, ok := new(big.Int).SetString(string(text), 10)
	if !ok || len(text) > 3*maxDecimal || max(exponent, -exponent) > 3*maxDecimal {
		return nil, false
	}
	shift := int64(scale - point + exponent)
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(max(shift, -shift)), nil)
	if shift >= 0 {
		return digits.Mul(digits, power), true
	}
	digits, rest := digits.QuoRem(digits, power, new(big.Int))
	return digits, rest.Sign() == 0
}

func (w *avroWriter) float(t *avroType, pos int) error {
	raw := string(w.doc[pos:jsonEnd(w.doc, pos)])
	bits := 64
	if t.kind == avroFloat {
		bits = 32
	}
	f := math.Float64frombits(0x7ff8 << 48) // NaN as Java has it; Go's own has another bit set
	switch raw {
	case `"NaN"`:
	case `"Infinity"`:
		f = math.Inf(1)
	case `"-Infinity"`:
		f = math.Inf(-1)
	default:
		var err error
		if raw[0] == '"' {
			return t.misfit(w.doc, pos)
		}
		if f, err = strconv.ParseFloat(raw, bits); err != nil {
			return fmt.Errorf("a number is too large for the type %s", t.kind)
		}
	}
	if bits == 32 {
		w.out = binary.LittleEndian.AppendUint32(w.out, math.Float32bits(float32(f)))
	} else {
		w.out = binary.LittleEndian.AppendUint64(w.out, math.Float64bits(f))
	}
	return nil
}

// text writes a string, bytes or a fixed.
func (w *avroWriter) text(t *avroType, pos int) error {
	var raw []byte
	switch {
	case t.decimal && w.form == avroPlain:
		var err error
		if raw, err = t.unscaled(w.doc, pos); err != nil {
			return err
		}
	case w.doc[pos] != '"':
		return t.misfit(w.doc, pos)
	case t.kind == avroString:
		raw = w.unquoted(pos)
		if !utf8.Valid(raw) {
			return errors.New("a string is no UTF-8")
		}
	default:
		for _, r := range string(w.unquoted(pos)) {
			if r > 0xff {
				return fmt.Errorf("a string that stands for bytes holds the character %q: it may hold those up to U+00FF, one for each byte", r)
			}
			raw = append(raw, byte(r))
		}
	}
	if t.kind != avroFixed {
		w.long(int64(len(raw)))
	} else if len(raw) != t.size {
		return fmt.Errorf("%d bytes where the fixed %s has %d", len(raw), t.name, t.size)
	}
	w.out = append(w.out, raw...)
	return nil
}

// unscaled returns the bytes of a decimal: as few as it needs, or those of the fixed.
func (t *avroType) unscaled(doc []byte, pos int) ([]byte, error) {
	raw := doc[pos:jsonEnd(doc, pos)]
	if raw[0] == '"' {
		raw = jsonText(raw)
		if !validNumber(raw) {
			return nil, errors.New("a string that holds no number where the schema has a decimal")
		}
	}
	n, exact := decimalDigits(raw, min(t.scale, maxDecimal))
	if !exact || t.scale > maxDecimal {
		return nil, fmt.Errorf("a number has more than the %d digits behind the point that the schema gives the decimal", t.scale)
	}
	if digits := len(n.Append(nil, 10)); digits > t.digits+1 || digits > t.digits && n.Sign() >= 0 {
		return nil, fmt.Errorf("a number has more than the %d digits that the schema gives the decimal", t.digits)
	}
	magnitude := n
	if n.Sign() < 0 {
		magnitude = new(big.Int).Not(n) // -n-1: of -128, whose sign fits in beside it, 127
	}
	size := magnitude.BitLen()/8 + 1
	if t.kind == avroFixed {
		if size > t.size {
			return nil, fmt.Errorf("a number does not fit into the %d bytes of the fixed %s", t.size, t.name)
		}
		size = t.size
	}
	bytes := make([]byte, size)
	magnitude.FillBytes(bytes)
	if n.Sign() < 0 {
		for i := range bytes {
			bytes[i] = ^bytes[i]
		}
	}
	return bytes, nil
}

// items writes an array or a map in one block, in the order of the document.
func (w *avroWriter) items(t *avroType, pos int) error {
	count := 0
	for walk := membersOf(w.doc, pos); ; count++ {
		if _, more := walk.next(); !more {
			if err := w.spend(walk.pos - pos); err != nil {
				return err
			}
			break
		}
	}
	if count > 0 {
		w.long(int64(count))
	}
	names := map[string]bool{}
	for walk := membersOf(w.doc, pos); count > 0; {
		m, more := walk.next()
		if !more {
			break
		}
		if t.kind == avroMap {
			name := jsonText(w.doc[m.start:m.nameEnd])
			if names[string(name)] || !utf8.Valid(name) {
				return errors.New("the name of a map's entry is there twice, or no UTF-8")
			}
			names[string(name)] = true
			w.long(int64(len(name)))
			w.out = append(w.out, name...)
		}
		if err := w.value(t.item, m.value); err != nil {
			return err
		}
	}
	w.long(0)
	return nil
}

func (w *avroWriter) union(t *avroType, pos int) error {
	if w.form == avroOwn && w.doc[pos] != 'n' {
		return w.namedBranch(t, pos)
	}
	before := len(w.out)
	fault, tried := errAvroBranch, 0
	for i, branch := range t.branches {
		if !branch.takes(w.doc[pos]) {
			continue
		}
		w.long(int64(i))
		err := w.value(branch, pos)
		if err == nil || errors.Is(err, errAvroSteps) {
			return err
		}
		w.out = w.out[:before]
		fault = err
		tried++
	}
	switch tried {
	case 0:
		return fmt.Errorf("%s fits no branch of a union", jsonKind(w.doc, pos))
	case 1:
		return fault
	}
	return fmt.Errorf("%s fits none of the %d branches of a union that it might be; of the last of them: %w", jsonKind(w.doc, pos), tried, fault)
}

// namedBranch writes {"name of the branch": value}.
func (w *avroWriter) namedBranch(t *avroType, pos int) error {
	if w.doc[pos] != '{' {
		return fmt.Errorf(`%s where a union should stand: write {"type": value}`, jsonKind(w.doc, pos))
	}
	walk := membersOf(w.doc, pos)
	m, more := walk.next()
	if !more {
		return errors.New("an object that names no branch of its union")
	}
	if _, more := walk.next(); more {
		return errors.New("an object that names more than one branch of its union")
	}
	name := string(jsonText(w.doc[m.start:m.nameEnd]))
	for i, branch := range t.branches {
		if branch.name == name && branch.kind != avroNull {
			w.long(int64(i))
			return w.value(branch, m.value)
		}
	}
	return errors.New("an object whose name is that of no branch of its union")
}

// record writes the fields in the schema's order, whatever order the document has them in.
func (w *avroWriter) record(t *avroType, pos int) error {
	places := make([]int, len(t.fields)) // 0: not there, for no member begins at the first byte
	walk := membersOf(w.doc, pos)
	for {
		m, more := walk.next()
		if !more {
			break
		}
		name := string(jsonText(w.doc[m.start:m.nameEnd]))
		i, known := t.byName[name]
		switch {
		case !known:
			return fmt.Errorf("the record %s has no field %.100q", t.name, name)
		case places[i] != 0:
			return fmt.Errorf("the field %s is there twice", name)
		}
		places[i] = m.value
	}
	if err := w.spend(walk.pos - pos + len(t.fields)); err != nil {
		return err
	}
	for i := range t.fields {
		f := &t.fields[i]
		var err error
		switch {
		case places[i] != 0:
			err = w.value(f.typ, places[i])
		case f.preset != nil:
			err = w.preset(f)
		default:
			err = errors.New("it is missing, and the schema has no default for it")
		}
		if err != nil {
			return fmt.Errorf("field %s: %w", f.name, err)
		}
	}
	return nil
}

// preset writes a field's default.
func (w *avroWriter) preset(f *avroField) error {
	root, err := jsonRoot(f.preset)
	if err != nil {
		return err
	}
	if err := w.spend(len(f.preset)); err != nil {
		return err
	}
	inner := avroWriter{doc: f.preset, out: w.out, form: avroPreset, depth: w.depth, steps: w.steps}
	err = inner.value(f.typ, root)
	w.out = inner.out
	return err
}
