package kafka

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/xdg-go/scram"

	"github.com/sebbroker/seb/internal/access"
	"github.com/sebbroker/seb/internal/auth"
)

const (
	scramSHA256 = "SCRAM-SHA-256"
	scramSHA512 = "SCRAM-SHA-512"
)

var mechanisms = map[string]access.Mechanism{scramSHA256: access.SCRAMSHA256, scramSHA512: access.SCRAMSHA512}

// scramHash is the hash of a mechanism.
func scramHash(m access.Mechanism) scram.HashGeneratorFcn {
	if m == access.SCRAMSHA512 {
		return scram.SHA512
	}
	return scram.SHA256
}

// scramConversation is a conversation with a client (RFC 5802). The user may have several tokens, so
// there is a conversation for each, with the same nonce, salt and iterations, and therefore the same
// first answer. The client's proof shows which token it has.
type scramConversation struct {
	s         *session
	mechanism access.Mechanism
	users     []auth.Candidate
	turns     []*scram.ServerConversation // of users
	// The client's first message, and the answer to it.
	first, answer string
}

func (s *session) newConversation(m access.Mechanism) *scramConversation {
	return &scramConversation{s: s, mechanism: m}
}

var errPassword = errors.New("authentication failed: the password must be the API key, or the token or password of the user")

// step processes a message, and returns an identity once the client has authenticated.
func (t *scramConversation) step(ctx context.Context, message []byte) (answer []byte, who *auth.Identity, err error) {
	if t.answer == "" {
		if t.answer, err = t.begin(ctx, string(message)); err != nil {
			return nil, nil, err
		}
		t.first = string(message)
		return []byte(t.answer), nil, nil
	}
	for i := range t.users {
		out, ok := t.repeated(&t.users[i], string(message))
		if !ok {
			text, err := t.turns[i].Step(string(message))
			out, ok = text, err == nil && t.turns[i].Done() && t.turns[i].Valid()
		}
		if ok {
			who, err = loginResult(t.s.o.Auth.Accept(t.users[i], t.s.remote.String()))
			return []byte(out), who, err
		}
	}
	return nil, nil, errPassword
}

// begin answers the client's first message, which names the user.
func (t *scramConversation) begin(ctx context.Context, message string) (answer string, err error) {
	nonce := rand.Text()
	var failed error
	find := func(user string) (none scram.StoredCredentials, _ error) {
		if t.users == nil {
			t.users, failed = t.s.o.Auth.Candidates(ctx, user, t.mechanism)
		}
		if len(t.users) == 0 {
			return none, errPassword
		}
		c := t.users[len(t.turns)].Scram
		return scram.StoredCredentials{
			KeyFactors: scram.KeyFactors{Salt: string(c.Salt), Iters: int(c.Iterations)}, StoredKey: c.StoredKey, ServerKey: c.ServerKey,
		}, nil
	}
	server, err := scramHash(t.mechanism).NewServer(find)
	if err != nil {
		return "", fmt.Errorf("%s: %w", t.mechanism, err)
	}
	server = server.WithNonceGenerator(func() string { return nonce })
	for len(t.turns) == 0 || len(t.turns) < len(t.users) {
		turn := server.NewConversation()
		if answer, err = turn.Step(message); err != nil {
			if failed != nil {
				return "", failed
			}
			return "", errPassword
		}
		t.turns = append(t.turns, turn)
	}
	return answer, nil
}

// repeated accepts the last message of librdkafka before 2.6.1, which repeats the client's nonce
// before the nonce. ok is false if the message is another one, or its proof is wrong. Kafka
// accepted it up to 3.9. This weakens no check: the proof covers the first answer, which contains
// the nonce of this conversation.
func (t *scramConversation) repeated(user *auth.Candidate, message string) (answer string, ok bool) {
	parts := strings.SplitN(t.first, ",", 3) // n,,n=user,r=nonce: two head parts, and the rest
	if len(parts) != 3 {
		return "", false
	}
	_, own, _ := strings.Cut(parts[2], ",r=")
	own, _, _ = strings.Cut(own, ",")
	both, _, _ := strings.Cut(strings.TrimPrefix(t.answer, "r="), ",")
	head := base64.StdEncoding.EncodeToString([]byte(parts[0] + "," + parts[1] + ","))
	unproven, proof, _ := strings.Cut(message, ",p=")
	given, err := base64.StdEncoding.DecodeString(proof)
	if err != nil || unproven != "c="+head+",r="+own+both {
		return "", false
	}
	authMessage := parts[2] + "," + t.answer + "," + unproven
	signature := t.sign(user.Scram.StoredKey, authMessage)
	if len(given) != len(signature) {
		return "", false
	}
	key := scramHash(t.mechanism)()
	for i := range given {
		signature[i] ^= given[i]
	}
	key.Write(signature)
	if !hmac.Equal(key.Sum(nil), user.Scram.StoredKey) {
		return "", false
	}
	return "v=" + base64.StdEncoding.EncodeToString(t.sign(user.Scram.ServerKey, authMessage)), true
}

func (t *scramConversation) sign(key []byte, authMessage string) []byte {
	mac := hmac.New(scramHash(t.mechanism), key)
	mac.Write([]byte(authMessage))
	return mac.Sum(nil)
}
