package redact_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/platform/redact"
)

func TestText(t *testing.T) {
	const key = "hunter2hunter2"
	for _, text := range []string{
		"cannot open s3://me:" + key + "@bucket/x",
		"postgresql://user:" + key + "@db:5432/runs refused",
		"HTTP 401: Authorization: Bearer " + key,
		"{'Authorization': 'Basic " + key + "', 'Host': 'x'}",
		"bad login, password=" + key + ", host=x",
		"bad login, Password: " + key,
		`{"api_key": "` + key + `"}`,
		"WANDB_API_KEY=" + key + " is not valid",
		"https://x/y?X-Amz-Signature=" + key + "&z=1",
		"https://x/y?sv=1&access_token=" + key,
		"Command '['python', 'x.py', '--hf-token', '" + key + "']' returned 1",
		"usage: --password=" + key + " is unknown",
		"token hf_" + key + " is invalid",
		"Incorrect API key provided: sk-" + key,
		"git: ghp_" + key + "1234",
		"eyJhbGciOiJIUzI1NiJ9." + key + ".x expired",
		"AKIA" + strings.ToUpper(key) + " does not exist",
		"-----BEGIN RSA PRIVATE KEY-----\n" + key + "\n-----END RSA PRIVATE KEY-----",
	} {
		got := redact.Text(text)
		if strings.Contains(strings.ToLower(got), key) || !strings.Contains(got, redact.Hidden) {
			t.Errorf("Text(%q) = %q, want the secret replaced by %s", text, got, redact.Hidden)
		}
	}
	for _, text := range []string{"0123456789abcdef0123456789abcdef01234567", "Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MGFiY2RlZg=="} {
		if got := redact.Text("key " + text + " is wrong"); got != "key "+redact.Hidden+" is wrong" {
			t.Errorf("Text() = %q, want %q", got, "key "+redact.Hidden+" is wrong")
		}
	}
}

// Secret keys of AWS have forty characters of base64, like hashes, paths and
// data. The keys here are invented, except for the one in AWS's documentation.
func TestAWSKeys(t *testing.T) {
	for _, key := range []string{
		"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "3xK9/vQmR7tYpL2sWnZ4+bHcDfGjUaEi8oN1rXk5", "je7MtGbClwBF/2Zp9Utk/h3yCo8nvbEXAMPLEKEY",
		"a+B1c/D2eF3gH4iJ5kL6mN7oP8qR9sT0uV+wX/yZ", "Zq8+1LtW4vXc/0PkNfYb3RmJ7sHdG2aUoE6iTw9C",
	} {
		for _, around := range []string{"%", "SignatureDoesNotMatch: % is not valid", "KeyError: '%'", `{"key": "%"}`, "s3 client (%) failed", "aws_secret_access_key %", "line\n%\nline", "%, % and %"} {
			text := strings.ReplaceAll(around, "%", key)
			if got, want := redact.Text(text), strings.ReplaceAll(around, "%", redact.Hidden); got != want {
				t.Errorf("Text(%q) = %q, want %q", text, got, want)
			}
		}
	}
	for _, text := range []string{
		"/usr/lib/python3.11/site-packages/torch/x",                     // a path
		"/usr/lib/python3/dist/packages/torch/nn1",                      // forty letters
		"data/ImageNet2012/train/n01440764/ILSVRC",                      // a relative path
		"Users/Anna/Projects2026/LLaMA3/Check/v12",                      // with capitals in names
		"runs/2026/11/28/Job1234/Rank07/Step00010",                      // with numbers
		"https://huggingface.co/meta-llama/Llama-3.1-8B/resolve/main/x", // a URL
		"commit of main is not there",                                   //
	} {
		if got := redact.Text(text); got != text {
			t.Errorf("Text(%q) = %q, want the same", text, got)
		}
	}
}

// TestAWSKeysAreRandom checks that nearly all random keys are found.
func TestAWSKeysAreRandom(t *testing.T) {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	from := rand.New(rand.NewPCG(1, 2))
	missed := 0
	const all = 2000
	for range all {
		var key [40]byte
		for i := range key {
			key[i] = letters[from.IntN(len(letters))]
		}
		if strings.Contains(redact.Text("x "+string(key[:])+" y"), string(key[:])) {
			missed++
		}
	}
	if missed > all/500 {
		t.Errorf("%d of %d keys were kept, want at most 1 in 500", missed, all)
	}
}

// The text of an exception is not changed.
func TestTextIsKept(t *testing.T) {
	for _, text := range []string{
		"RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.15 GiB of which 12.25 MiB is free.",
		"ValueError: Unexpected token identifier at line 3, column 7",
		"KeyError: 'model.layers.0.self_attn.q_proj.weight'",
		"FileNotFoundError: [Errno 2] No such file or directory: '/data/tokenized/train_0123456789.bin'",
		"torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1691, unhandled cuda error",
		"ConnectionError: https://huggingface.co/api/models?x=1 timed out",
		"AssertionError: ThisIsALongNameOfATestThatSomebodyHasChosen failed",
		"user@host: Permission denied",
	} {
		if got := redact.Text(text); got != text {
			t.Errorf("Text(%q) = %q, want the same", text, got)
		}
	}
}

func TestAddress(t *testing.T) {
	for address, want := range map[string]string{
		"https://u:p@host:1": "https://" + redact.Hidden + "@host:1", "u:p@h": redact.Hidden + "@h", "host:1": "host:1",
		"//a@b@c": "//" + redact.Hidden + "@c",
	} {
		if got := redact.Address(address); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}

func TestFlags(t *testing.T) {
	args := []string{"train", "--lr=0.1", "-phunter2", "-known", "v", "--token", "hunter2", "--a b", "-", "--", "--not"}
	got := redact.Flags(args, func(name string) bool { return name == "known" })
	if want := []string{"--lr", "-p", "-known", "--token"}; !slices.Equal(got, want) {
		t.Errorf("Flags() = %q, want %q", got, want)
	}
	if n := len(redact.Flags(slices.Repeat([]string{"--x"}, 10000), nil)); n != 256 {
		t.Errorf("Flags() of 10000 flags has %d, want 256", n)
	}
	if n := len(redact.Flags(slices.Repeat([]string{"--" + strings.Repeat("x", 60)}, 10000), nil)); n != 4096/63 {
		t.Errorf("Flags() of 10000 long flags has %d, want %d", n, 4096/63)
	}
}
