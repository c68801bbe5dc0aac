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
	// scramIterations is the minimum that clients accept (RFC 7677). The API key is random, so more
	// iterations would not slow down guessing.
	scramIterations = 4096
	scramSaltBytes  = 16
)

// scramServer is a SCRAM mechanism (RFC 5802) with one password for all users. It keeps the data to
// check the password, not the password.
type scramServer struct {
	*scram.Server
	hash   scram.HashGeneratorFcn
	stored scram.StoredCredentials
}

// scramConversation is a conversation with a client.
type scramConversation struct {
	*scram.ServerConversation
	server *scramServer
	// The client's first message, and the answer to it.
	first, answer string
}

// newScram creates the servers by mechanism.
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

// newConversation starts a conversation.
func (s *scramServer) newConversation() *scramConversation {
	return &scramConversation{ServerConversation: s.NewConversation(), server: s}
}

var errPassword = errors.New("authentication failed: the password must be the API key")

// step processes a message; done reports that the client has authenticated.
func (t *scramConversation) step(message []byte) (answer []byte, done bool, err error) {
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

// repeated accepts the last message of librdkafka before 2.6.1, which repeats the client's nonce
// before the nonce. ok is false if the message is another one, or its proof is wrong. Kafka
// accepted it up to 3.9. This weakens no check: the proof covers the first answer, which contains
// the nonce of this conversation.
func (t *scramConversation) repeated(message string) (answer string, ok bool) {
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
	signature := t.sign(t.server.stored.StoredKey, authMessage)
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
	return "v=" + base64.StdEncoding.EncodeToString(t.sign(t.server.stored.ServerKey, authMessage)), true
}

func (t *scramConversation) sign(key []byte, authMessage string) []byte {
	mac := hmac.New(t.server.hash, key)
	mac.Write([]byte(authMessage))
	return mac.Sum(nil)
}
