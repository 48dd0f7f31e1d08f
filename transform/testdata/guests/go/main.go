//go:build wasip1

// An example of a guest in Go: orders of more than 100 from the region eu become gold, all others
// are dropped.
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -ldflags='-s -w' -o order.wasm .
package main

import (
	"bytes"
	"strconv"
)

func main() {}

func transform(r *record) {
	if r.value == nil {
		return
	}
	region, amount := field(r.value, "region"), field(r.value, "amount")
	if string(region) != `"eu"` {
		return
	}
	if n, err := strconv.ParseFloat(string(amount), 64); err != nil || n <= 100 {
		return
	}
	end := bytes.LastIndexByte(r.value, '}')
	value := make([]byte, 0, len(r.value)+16)
	value = append(append(append(value, r.value[:end]...), `,"tier":"gold"`...), r.value[end:]...)
	r.value = value
	emit(r)
}

// field finds the value of a field of a JSON object, as it is written; nothing if it is not there.
// It trusts that the value is JSON.
func field(doc []byte, name string) []byte {
	depth, key := 0, false
	for i := 0; i < len(doc); {
		switch c := doc[i]; c {
		case '{', '[':
			depth++
			key = c == '{'
			i++
		case '}', ']':
			depth--
			i++
		case ',':
			key = true
			i++
		case ':':
			key = false
			i++
		case '"':
			end := skipString(doc, i)
			if depth == 1 && key && end-i == len(name)+2 && string(doc[i+1:end-1]) == name {
				return bare(doc, end)
			}
			i = end
		default:
			i++
		}
	}
	return nil
}

func skipString(doc []byte, i int) int {
	for i++; i < len(doc); i++ {
		switch doc[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(doc)
}

// bare is the string or the number behind a colon.
func bare(doc []byte, i int) []byte {
	for i < len(doc) && (doc[i] == ':' || doc[i] == ' ') {
		i++
	}
	if i < len(doc) && doc[i] == '"' {
		return doc[i:skipString(doc, i)]
	}
	start := i
	for i < len(doc) && doc[i] != ',' && doc[i] != '}' && doc[i] != ' ' {
		i++
	}
	return doc[start:i]
}
