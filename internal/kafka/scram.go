package kafka

import (
	"crypto/hmac"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/xdg-go/scram"
)

const (
	scramSHA256 = "SCRAM-SHA-256"
	scramSHA512 = "SCRAM-SHA-512"
	// scramIterations is the least that clients take (RFC 7677). The API key is random, so more would slow nobody down who
	// guesses.
	scramIterations = 4096
	scramSaltBytes  = 16
)

// scramServer is a mechanism of SCRAM (RFC 5802), for a password that every user has. It keeps what is needed to check it, not
// the password.
type scramServer struct {
	*scram.Server
	hash   scram.HashGeneratorFcn
	stored scram.StoredCredentials
}

// scramTalk is a conversation of a client with it.
type scramTalk struct {
	*scram.ServerConversation
	server *scramServer
	// What it was begun with: the client's first message, and the answer to it.
	first, answer string
}

// newScram makes the servers, by mechanism.
func newScram(password string) (map[string]*scramServer, error) {
	servers := map[string]*scramServer{}
	for mechanism, hash := range map[string]scram.HashGeneratorFcn{scramSHA256: scram.SHA256, scramSHA512: scram.SHA512} {
		salt := make([]byte, scramSaltBytes)
		if _, err := rand.Read(salt); err != nil {
			return nil, fmt.Errorf("salt: %w", err)
		}
		c, err := hash.NewClient("", password, "")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", mechanism, err)
		}
		stored, err := c.GetStoredCredentialsWithError(scram.KeyFactors{Salt: string(salt), Iters: scramIterations})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", mechanism, err)
		}
		s, err := hash.NewServer(func(string) (scram.StoredCredentials, error) { return stored, nil })
		if err != nil {
			return nil, fmt.Errorf("%s: %w", mechanism, err)
		}
		servers[mechanism] = &scramServer{Server: s, hash: hash, stored: stored}
	}
	return servers, nil
}

// talk begins a conversation.
func (s *scramServer) talk() *scramTalk {
	return &scramTalk{ServerConversation: s.NewConversation(), server: s}
}

var errPassword = errors.New("authentication failed: the password must be the API key")

// step goes a step on; done says that the client has shown who it is.
func (t *scramTalk) step(message []byte) (answer []byte, done bool, err error) {
	if t.answer != "" {
		if out, ok := t.repeated(string(message)); ok {
			return []byte(out), true, nil
		}
	}
	out, err := t.Step(string(message))
	switch {
	case err != nil || t.Done() && !t.Valid():
		return nil, false, errPassword
	case t.Done():
		return []byte(out), true, nil
	}
	t.first, t.answer = string(message), out
	return []byte(out), false, nil
}

// repeated takes the last message of librdkafka before 2.6.1, in which the client's nonce stands in front of the nonce once more;
// false: it is none, or its proof is wrong. Kafka took it up to 3.9. No check is lost: the proof is over the
// first answer too, which has the nonce that is of this conversation only.
func (t *scramTalk) repeated(message string) (answer string, ok bool) {
	parts := strings.SplitN(t.first, ",", 3) // n,,n=user,r=nonce: two of a head, and the rest
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
	said := parts[2] + "," + t.answer + "," + unproven
	signature := t.sign(t.server.stored.StoredKey, said)
	if len(given) != len(signature) {
		return "", false
	}
	key := t.server.hash()
	for i := range given {
		signature[i] ^= given[i]
	}
	key.Write(signature)
	if !hmac.Equal(key.Sum(nil), t.server.stored.StoredKey) {
		return "", false
	}
	return "v=" + base64.StdEncoding.EncodeToString(t.sign(t.server.stored.ServerKey, said)), true
}

func (t *scramTalk) sign(key []byte, said string) []byte {
	mac := hmac.New(t.server.hash, key)
	mac.Write([]byte(said))
	return mac.Sum(nil)
}
