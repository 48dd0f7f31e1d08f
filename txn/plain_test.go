package txn

func (b *bed) openPlain() *Plain {
	b.t.Helper()
	p, err := OpenPlain(b.options())
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(p.Close)
	return p
}
