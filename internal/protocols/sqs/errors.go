package sqs

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/sebbroker/seb/api"
)

// Error is an error as AWS describes it. Query is its code in the Query protocol, and Type its name in JSON.
type Error struct {
	Status      int
	Type, Query string
	Message     string
	ours        bool   // the broker's fault, not the sender's
	query       string // Message in the Query protocol; "": the same
}

func (e *Error) Error() string { return e.Query + ": " + e.Message }

// Unwrap returns a problem with the code for logs and metrics.
func (e *Error) Unwrap() error {
	code := api.BadRequest
	switch {
	case e.ours:
		code = api.Internal
	case slices.Contains(unauthenticated, e.Type):
		code = api.Unauthorized
	case e.Type == "QueueDoesNotExist":
		code = api.UnknownTopic
	}
	return &api.Problem{Code: code, Detail: e.Message}
}

// unauthenticated are the types of errors of signatures.
var unauthenticated = []string{"UnrecognizedClientException", "InvalidSignatureException", "MissingAuthenticationTokenException", "IncompleteSignatureException"}

const queryPrefix = "AWS.SimpleQueueService."

// known are errors with a code of their own: from their type to that. Others have their type as code.
var known = map[string]string{
	"QueueDoesNotExist":                   queryPrefix + "NonExistentQueue",
	"QueueNameExists":                     "QueueAlreadyExists",
	"TooManyEntriesInBatchRequest":        queryPrefix + "TooManyEntriesInBatchRequest",
	"EmptyBatchRequest":                   queryPrefix + "EmptyBatchRequest",
	"BatchEntryIdsNotDistinct":            queryPrefix + "BatchEntryIdsNotDistinct",
	"BatchRequestTooLong":                 queryPrefix + "BatchRequestTooLong",
	"InvalidBatchEntryId":                 queryPrefix + "InvalidBatchEntryId",
	"MessageNotInflight":                  queryPrefix + "MessageNotInflight",
	"PurgeQueueInProgress":                queryPrefix + "PurgeQueueInProgress",
	"UnsupportedOperation":                queryPrefix + "UnsupportedOperation",
	"InvalidParameterValueException":      "InvalidParameterValue",
	"MissingRequiredParameterException":   "MissingParameter",
	"UnrecognizedClientException":         "InvalidClientTokenId",
	"InvalidSignatureException":           "SignatureDoesNotMatch",
	"MissingAuthenticationTokenException": "MissingAuthenticationToken",
	"IncompleteSignatureException":        "IncompleteSignature",
	"AccessDeniedException":               "AccessDenied",
	"UnknownOperationException":           "InvalidAction",
	"SerializationException":              "MalformedInput",
	"ServiceUnavailableException":         "ServiceUnavailable",
	"InternalFailure":                     "InternalError",
}

func newError(status int, kind, format string, args ...any) *Error {
	e := &Error{Status: status, Type: kind, Query: kind, Message: fmt.Sprintf(format, args...), ours: status >= http.StatusInternalServerError}
	if code, ok := known[kind]; ok {
		e.Query = code
	}
	return e
}

func refuse(kind, format string, args ...any) *Error {
	return newError(http.StatusBadRequest, kind, format, args...)
}

func errValue(format string, args ...any) *Error {
	return refuse("InvalidParameterValueException", format, args...)
}

// errParameter refuses the value of a parameter for a reason.
func errParameter(name string, value any, reason string, args ...any) *Error {
	return errValue("Value %v for parameter %s is invalid. Reason: %s", value, name, fmt.Sprintf(reason, args...))
}

func errMissing(name string) *Error {
	return refuse("MissingRequiredParameterException", "The request must contain the parameter %s.", name)
}

func errIncomplete(format string, args ...any) *Error {
	return refuse("IncompleteSignatureException", format, args...)
}

func errSignature(format string, args ...any) *Error {
	return newError(http.StatusForbidden, "InvalidSignatureException", format, args...)
}

var (
	errUnsigned = newError(http.StatusForbidden, "MissingAuthenticationTokenException", "Request is missing Authentication Token")
	errClient   = newError(http.StatusForbidden, "UnrecognizedClientException", "The security token included in the request is invalid.")
	errNoQueue  = func() *Error {
		e := refuse("QueueDoesNotExist", "The specified queue does not exist.")
		e.query = "The specified queue does not exist for this wsdl version."
		return e
	}()
)

// of translates a problem of the broker.
func of(p *api.Problem) *Error {
	detail := p.Detail
	if detail == "" {
		detail = api.Titles[p.Code]
	}
	switch status := api.Statuses[p.Code]; {
	case p.Code == api.Unauthorized:
		return errClient
	case p.Code == api.Forbidden:
		return newError(http.StatusForbidden, "AccessDeniedException", "%s", detail)
	case p.Code == api.UnknownTopic, p.Code == api.NotAQueue:
		return errNoQueue
	case p.Code == api.UnknownReceipt:
		return refuse("ReceiptHandleIsInvalid", "The input receipt handle is not a valid receipt handle.")
	case p.Code == api.QueueLimit:
		return newError(http.StatusForbidden, "OverLimit", "%s", detail)
	case p.Code == api.TopicExists:
		return refuse("QueueNameExists", "%s", detail)
	case p.Code == api.OutcomeUnknown: // the client repeats it
		return newError(http.StatusInternalServerError, "InternalFailure", "%s", detail)
	case status == http.StatusTooManyRequests:
		return newError(http.StatusForbidden, "RequestThrottled", "%s", detail)
	case status >= http.StatusInternalServerError:
		return newError(http.StatusServiceUnavailable, "ServiceUnavailableException", "%s", detail)
	}
	return errValue("%s", detail)
}
