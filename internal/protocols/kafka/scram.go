package kafka

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/protocols/auth"
)

const (
	scramSHA256 = "SCRAM-SHA-256"
	scramSHA512 = "SCRAM-SHA-512"
)

var mechanisms = map[string]access.Mechanism{scramSHA256: access.SCRAMSHA256, scramSHA512: access.SCRAMSHA512}

// scramConversation is the server's side of a conversation (RFC 5802) without channel binding:
//
//	client  n,,n=user,r=nonce                      header "n,,", then bare
//	server  r=nonce+ours,s=salt,i=iterations       answer
//	client  c=base64(header),r=nonce+ours,p=proof
//	server  v=signature
//
// The user may have several tokens, which have the same salt and iterations. The client's proof
// shows which token it has. User names are compared byte by byte, as Kafka does, without SASLprep.
type scramConversation struct {
	s                    *session
	mechanism            access.Mechanism
	users                []auth.Candidate
	header, bare, answer string
	clientNonce, nonce   string // nonce begins with clientNonce
}

func (s *session) newConversation(m access.Mechanism) *scramConversation {
	return &scramConversation{s: s, mechanism: m}
}

var errPassword = errors.New("authentication failed: the password must be the API key, or the token or password of the user")

// step processes a message, and returns an identity once the client has authenticated.
func (t *scramConversation) step(ctx context.Context, message []byte) (answer []byte, who *auth.Identity, err error) {
	if t.answer == "" {
		err = t.begin(ctx, string(message))
		return []byte(t.answer), nil, err
	}
	unproven, proof, ok := t.parseLast(string(message))
	if !ok {
		return nil, nil, errPassword
	}
	for _, user := range t.users {
		if signature, proven := user.Prove(t.bare+","+t.answer+","+unproven, proof); proven {
			who, err = loginResult(t.s.o.Auth.Accept(user, t.s.remote.String()))
			return []byte("v=" + base64.StdEncoding.EncodeToString(signature)), who, err
		}
	}
	return nil, nil, errPassword
}

// begin answers the client's first message, which names the user. Extensions may follow the nonce.
func (t *scramConversation) begin(ctx context.Context, message string) error {
	fields := strings.SplitN(message, ",", 5)
	if len(fields) < 4 || fields[0] != "n" && fields[0] != "y" || fields[1] != "" && !strings.HasPrefix(fields[1], "a=") {
		return errPassword
	}
	t.header = fields[0] + "," + fields[1] + ","
	t.bare = message[len(t.header):]
	name, named := strings.CutPrefix(fields[2], "n=")
	nonce, ok := strings.CutPrefix(fields[3], "r=")
	if !named || !ok || nonce == "" {
		return errPassword
	}
	user, ok := saslName(name)
	if !ok {
		return errPassword
	}
	users, err := t.s.o.Auth.Candidates(ctx, user, t.mechanism)
	if err != nil {
		_, err = loginResult(nil, err)
		return err
	}
	c := users[0].Scram
	t.users, t.clientNonce, t.nonce = users, nonce, nonce+rand.Text()
	t.answer = fmt.Sprintf("r=%s,s=%s,i=%d", t.nonce, base64.StdEncoding.EncodeToString(c.Salt), c.Iterations)
	return nil
}

// saslName decodes a user name, in which a comma is =2C and an equals sign is =3D.
func saslName(encoded string) (name string, ok bool) {
	if strings.Count(encoded, "=") != strings.Count(encoded, "=2C")+strings.Count(encoded, "=3D") {
		return "", false
	}
	return strings.NewReplacer("=2C", ",", "=3D", "=").Replace(encoded), true
}

// parseLast splits the client's last message at its proof. ok is false if the message does not
// repeat the header and the nonce. Extensions may follow the nonce.
//
// librdkafka before 2.6.1 repeats the client's nonce before the nonce, which Kafka accepted up to
// 3.9. This weakens no check: the proof covers the first answer, which contains the nonce of this
// conversation.
func (t *scramConversation) parseLast(message string) (unproven string, proof []byte, ok bool) {
	end := max(0, strings.LastIndexByte(message, ','))
	unproven = message[:end]
	encoded, proven := strings.CutPrefix(message[end:], ",p=")
	proof, err := base64.StdEncoding.DecodeString(encoded)
	rest, same := strings.CutPrefix(unproven, "c="+base64.StdEncoding.EncodeToString([]byte(t.header))+",r=")
	nonce, _, _ := strings.Cut(rest, ",")
	return unproven, proof, proven && err == nil && same && (nonce == t.nonce || nonce == t.clientNonce+t.nonce)
}
