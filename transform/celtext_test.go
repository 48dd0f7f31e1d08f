package transform

import (
	"strings"
	"testing"
)

// TestCELText: the text and number functions, by the examples of CEL's own extensions and by bytes that are no UTF-8.
func TestCELText(t *testing.T) {
	for expr, want := range map[string]string{
		`"hello".charAt(4)`: `"o"`, `"hello".charAt(5)`: `""`, `"hello".charAt(-1)`: "the position -1 is outside", `"hello".charAt(6)`: "which has 5 characters",
		`"hello mellow".indexOf("")`: "0", `"hello mellow".indexOf("ello")`: "1", `"hello mellow".indexOf("jello")`: "-1", `"hello mellow".indexOf("", 2)`: "2",
		`"hello mellow".indexOf("ello", 2)`: "7", `"hello mellow".indexOf("ello", 20)`: "-1", `"hello mellow".indexOf("ello", -1)`: "the position -1", `"über".indexOf("r")`: "3",
		`"hello mellow".lastIndexOf("")`: "12", `"hello mellow".lastIndexOf("ello")`: "7", `"hello mellow".lastIndexOf("jello")`: "-1",
		`"hello mellow".lastIndexOf("ello", 6)`: "1", `"hello mellow".lastIndexOf("ello", 20)`: "7", `"hello mellow".lastIndexOf("ello", -1)`: "the position -1",
		`["hello", "mellow"].join()`: `"hellomellow"`, `["hello", "mellow"].join(" ")`: `"hello mellow"`, `[].join("/")`: `""`, `value.list.join("-")`: `"a-b"`, `value.mixed.join("-")`: "join takes a list of strings",
		`"TacoCÆt".lowerAscii()`: `"tacocÆt"`, `"TacoCæt".upperAscii()`: `"TACOCæT"`, `"lower".lowerAscii()`: `"lower"`,
		`"hello hello".replace("he", "we")`: `"wello wello"`, `"hello hello".replace("he", "we", -1)`: `"wello wello"`, `"hello hello".replace("he", "we", 1)`: `"wello hello"`,
		`"hello hello".replace("he", "we", 0)`: `"hello hello"`, `"hi you".replace("", "_")`: `"_h_i_ _y_o_u_"`, `"hello hello".replace("h", "")`: `"ello ello"`,
		`"gums".reverse()`: `"smug"`, `"über".reverse()`: `"rebü"`,
		`"a b c".split(" ")`: `["a","b","c"]`, `"a b c".split(" ", 0)`: "[]", `"a b c".split(" ", 1)`: `["a b c"]`, `"a b c".split(" ", 2)`: `["a","b c"]`, `"a b c".split(" ", -1)`: `["a","b","c"]`, `"äb".split("")`: `["ä","b"]`,
		`"tacocat".substring(4)`: `"cat"`, `"tacocat".substring(0, 4)`: `"taco"`, `"tacocat".substring(-1)`: "the position -1", `"tacocat".substring(2, 1)`: "the second is smaller",
		`"tacocat".substring(7)`: `""`, `"tacocat".substring(3, 8)`: "the position 8 is outside of the text, which has 7", `"über".substring(1, 2)`: `"b"`,
		`" \u00a0\ttrim\n ".trim()`: `"trim"`, `value.name.trim().lowerAscii()`: `"ada"`, `value.name.substring(value.one)`: `"Ada "`,
		`"contains".contains("tai") && "x".startsWith("x") && "x".endsWith("") && "a1".matches("[a-z][0-9]")`: "true",
		`math.abs(-3)`: "3", `math.abs(-1.5)`: "1.5", `math.abs(3u)`: "3", `math.abs(-9223372036854775807 - 1)`: "does not fit",
		`math.ceil(1.2)`: "2", `math.floor(-1.2)`: "-2", `math.round(2.5)`: "3", `math.round(-2.5)`: "-3", `math.trunc(-1.9)`: "-1", `math.round(value.one)`: "1", `math.floor(value.half)`: "0", `math.ceil(2u)`: "2",
		`math.greatest(1, 2.5)`: "2.5", `math.greatest(3, 2)`: "3", `math.least(value.one, value.half)`: "0.5", `math.least(2u, -1)`: "-1", `math.greatest(value.one, 1.0)`: "1", `math.greatest(1, "2")`: "found no matching overload",
	} {
		spec, err := Parse("set(value = " + expr + ")")
		var got string
		if err == nil {
			var out []Record
			if out, err = spec.New().Apply(&Record{Value: []byte(`{"list":["a","b"],"mixed":["a",1],"name":" Ada ","one":1,"half":0.5}`)}, nil); err == nil {
				got = string(out[0].Value)
			}
		}
		if err != nil {
			got = err.Error()
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%s is %s, want %s", expr, got, want)
		}
	}
}

// TestCELTextKeepsBytes: bytes that are no UTF-8 pass as they are, each as one character.
func TestCELTextKeepsBytes(t *testing.T) {
	for expr, want := range map[string]string{
		`text.lowerAscii()`: "a\xffb\xc3", `text.reverse()`: "\xc3B\xffA", `text.substring(1, 2)`: "\xff", `text.charAt(3)`: "\xc3", `text.replace("B", "x")`: "A\xffx\xc3",
		`text.split("B").join("-")`: "A\xff-\xc3", `text.trim()`: "A\xffB\xc3", `string(text.indexOf("B"))`: "2",
	} {
		out, err := chainOf(t, "set(key = "+expr+")").Apply(&Record{Value: []byte("A\xffB\xc3")}, nil)
		if err != nil || string(out[0].Key) != want {
			t.Errorf("%s is %s, want %q (%v)", expr, outcome{records: out}, want, err)
		}
	}
}

// TestCELTextBounds: no call makes more than the bound, nor many calls together.
func TestCELTextBounds(t *testing.T) {
	in := Record{Value: []byte(`{"l":[` + strings.Repeat(`"xxxxxxxxxx",`, 9999) + `"x"]}`)}
	sixty := "(" + strings.TrimSuffix(strings.Repeat("text + ", 60), " + ") + ")"
	sum := strings.TrimSuffix(strings.Repeat(sixty+" + ", 30), " + ")
	many := strings.TrimSuffix(strings.Repeat(`text.replace("x", "yyyyyyyyyy"), `, 300), ", ")
	for _, row := range some([][2]string{
		{`text.replace("", text)`, "larger than"},
		{`text.replace("x", text, 1000)`, "larger than"},
		{`value.l.map(x, text).join()`, "larger than"},
		{`value.l.map(x, text.replace("x", "y"))`, "took more than"},
		{`value.l.map(x, text.split(""))`, "took more than"},
		{`value.l.map(x, text.reverse())`, "took more than"},
		{`value.l.map(x, text.upperAscii().size())`, "took more than"},
		{`value.l.map(x, text.indexOf("zz"))`, "took more than"},
		{`(` + strings.Repeat("text + ", 12) + `text).replace("x", "yyyyyyyyyyyyyyyyyyyy").size()`, ""},
		{sum, "took more than"},
		{"[" + many + "]", "took more than"},
	}, 6) {
		expr, want := row[0], row[1]
		_, err := chainOf(t, "set(value = "+expr+")").Apply(&in, nil)
		if want == "" && err != nil || want != "" && (!isError(err) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.60s: error %.200v, want %q in it", expr, err, want)
		}
	}
	if racing {
		return
	}
	big := Record{Value: []byte(strings.Repeat("x", 2<<20))}
	if _, err := chainOf(t, `set(key = string(text.split("").size()))`).Apply(&big, nil); !isError(err) || !strings.Contains(err.Error(), "more than 1048576 parts") {
		t.Errorf("error %v", err)
	}
}
