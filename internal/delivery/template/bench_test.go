package template_test

import (
	"testing"

	"github.com/sebbroker/seb/internal/delivery/template"
)

func BenchmarkTemplate(b *testing.B) {
	t, err := template.ParseTemplate(`Hello {{.Witness.signup.Data.name | default "there"}}, {{date "2 January" .At}}{{if eq .State "fired"}}!{{end}}`, typeText, nil)
	if err != nil {
		b.Fatal(err)
	}
	m := sample()
	for b.Loop() {
		if _, err := t.Execute(m); err != nil {
			b.Fatal(err)
		}
	}
}
