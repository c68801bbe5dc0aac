package auth_test

import (
	"encoding/base64"
	"testing"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/test/must"
)

// TestProofOfRFC7677 uses the conversation in section 3 of RFC 7677.
func TestProofOfRFC7677(t *testing.T) {
	decode := func(s string) []byte {
		b := must.Get(base64.StdEncoding.DecodeString(s))(t)
		return b
	}
	const said = "n=user,r=rOprNGfwEbeRWgbNEkqO," +
		"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096," +
		"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
	salt, proof := decode("W22ZaJ0SNY7soEsUEjb6gQ=="), decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
	w := newWorld(t)
	secret := func(password string) auth.Candidate {
		salted := auth.Salted(access.SCRAMSHA256, password, salt, 4096)
		set := auth.Password{User: "user", Mechanism: access.SCRAMSHA256, Iterations: 4096, Salt: salt, Salted: salted}
		must.NoError(t, w.a.SetPassword(t.Context(), w.a.Root(), set))
		return must.Get(w.a.Candidates(t.Context(), "user", access.SCRAMSHA256))(t)[0]
	}
	signature, ok := secret("pencil").Prove(said, proof)
	if got, want := base64.StdEncoding.EncodeToString(signature), "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="; !ok || got != want {
		t.Errorf("the proof of the RFC: %v, signature %s, want %s", ok, got, want)
	}
	changed := append([]byte{proof[0] ^ 1}, proof[1:]...)
	for name, c := range map[string]struct {
		password, said string
		proof          []byte
	}{
		"another password": {"pencils", said, proof},
		"another message":  {"pencil", said + "x", proof},
		"a changed proof":  {"pencil", said, changed},
		"a short proof":    {"pencil", said, proof[:31]},
		"a long proof":     {"pencil", said, append(proof[:32:32], 0)},
		"no proof":         {"pencil", said, nil},
	} {
		if signature, ok := secret(c.password).Prove(c.said, c.proof); ok || signature != nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
