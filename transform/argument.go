package transform

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The arguments of the simple transforms are a piece of text, or a name and a value. A
// piece that begins with a quote is quoted as a whole and may then hold anything: leading
// space, "=", parentheses, and, with the escapes of Go, any byte.

// noArgument is the constructor's check of a transform that takes none.
func noArgument(arg string) error {
	if arg != "" {
		return fmt.Errorf("it takes no argument, but has %q: remove it", arg)
	}
	return nil
}

// headerName reads an argument that is the name of a header.
func headerName(arg string) (string, error) {
	name, rest, err := firstText(arg, "=")
	switch {
	case err != nil:
		return "", err
	case rest != "":
		return "", fmt.Errorf("unexpected %q after the header's name: write the name alone, in quotes if that is part of it", rest)
	case name == "":
		return "", errNoHeaderName
	}
	return name, nil
}

var errNoHeaderName = errors.New("the name of a header is missing: write it between the parentheses")

// headerPair reads an argument that is the name of a header, or name=value. hasValue
// tells name= from name. The value is never nil if there is one.
func headerPair(arg string) (name string, value []byte, hasValue bool, err error) {
	name, rest, err := firstText(arg, "=")
	if err != nil {
		return "", nil, false, err
	}
	if name == "" {
		return "", nil, false, errNoHeaderName
	}
	if rest == "" {
		return name, nil, false, nil
	}
	if rest[0] != '=' {
		return "", nil, false, fmt.Errorf("unexpected %q after the header's name: write name=value", rest)
	}
	text, rest, err := firstText(strings.TrimSpace(rest[1:]), "")
	if err != nil {
		return "", nil, false, err
	}
	if rest != "" {
		return "", nil, false, fmt.Errorf("unexpected %q after the closing quote: put the whole value in quotes", rest)
	}
	return name, []byte(text), true, nil
}

// firstText takes a piece of text off the front of s: a quoted one up to its closing
// quote, a plain one up to the first of the bytes in stop, or else all of s. The space
// around it is not part of it.
func firstText(s, stop string) (text, rest string, err error) {
	if s == "" || !strings.Contains("\"'`", s[:1]) {
		end := strings.IndexAny(s, stop)
		if end < 0 {
			end = len(s)
		}
		return strings.TrimSpace(s[:end]), s[end:], nil
	}
	end := closingQuote(s, 0)
	if end < 0 {
		return "", "", fmt.Errorf("the quote %c is not closed in %s", s[0], s)
	}
	text, err = unquote(s[:end+1])
	return text, strings.TrimSpace(s[end+1:]), err
}

// unquote returns the text between the quotes of s, which has one at either end.
func unquote(s string) (string, error) {
	quote, body := s[0], s[1:len(s)-1]
	if quote == '`' {
		return body, nil
	}
	var text []byte
	for body != "" {
		escape := strings.IndexByte(body, '\\')
		if escape < 0 {
			escape = len(body)
		}
		text = append(text, body[:escape]...)
		if body = body[escape:]; body == "" {
			break
		}
		char, multibyte, tail, err := strconv.UnquoteChar(body, quote)
		if err != nil {
			return "", fmt.Errorf(`unknown escape in %s: use \n \r \t \\ \%c \x00 \u00e9, or back quotes for text with backslashes`, s, quote)
		}
		if multibyte {
			text = append(text, string(char)...)
		} else {
			text = append(text, byte(char))
		}
		body = tail
	}
	return string(text), nil
}
