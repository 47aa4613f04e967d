#!/usr/bin/env bash
# The API under schemathesis, in a network namespace (as root): without the token, which must change nothing, then with it.
#
#   python3 -m venv out/venv && out/venv/bin/pip install schemathesis
#   bench/gateway/api.sh target/release/fairhop out/venv/bin/schemathesis [EXAMPLES]
set -euo pipefail

program=$(realpath "$1") schemathesis=$(realpath --no-symlinks "$2") examples=${3:-100}
document=$(realpath "$(dirname "$0")/../../crates/gateway/api/openapi.json")
name=fhapi$$
folder=$(mktemp -d)
gateway=
clean() {
    [[ -z $gateway ]] || kill "$gateway" 2>/dev/null || true
    wait
    ip netns del "$name"
    rm -rf "$folder"
}

ip netns add "$name"
trap clean EXIT
ip -n "$name" link set lo up
ip -n "$name" link add mesh type veth peer name wired
ip -n "$name" link set mesh up
ip -n "$name" link set wired up
cat >"$folder/gateway.toml" <<CONFIG
mode = "dry-run"
[[gateway]]
name = "api"
mesh = "mesh"
[api]
token_file = "$folder/token"
[journal]
folder = "$folder/journal"
CONFIG
ip netns exec "$name" "$program" gateway run "$folder/gateway.toml" 2>"$folder/log" &
gateway=$!
status() { ip netns exec "$name" "$program" gateway status --json; }
for _ in {1..100}; do
    status >/dev/null 2>&1 && break
    sleep 0.1
done

# A stream of events does not end. It answers what it is asked, whatever the kind of request.
try() {
    (cd "$folder" && ip netns exec "$name" "$schemathesis" run "$document" --url http://127.0.0.1:9470 --checks all \
        --exclude-path /api/v1/events --max-examples "$examples" --seed 1 --workers 2 --no-color "$@")
}

echo "» without the token"
try --exclude-checks positive_data_acceptance,ignored_auth,missing_required_header
state() { status | python3 -c 'import json, sys; s = json.load(sys.stdin); print(s["mode"], s["reloads"], s["reloads_refused"])'; }
if [[ $(state) != "dry-run 0 0" || -n $(find "$folder/journal" -name '*.recording') ]]; then
    echo "✗ a request without the token has changed something: $(state)" >&2
    exit 1
fi
echo "» with the token"
try --header "Authorization: Bearer $(cat "$folder/token")"
kill -0 "$gateway"
if grep -q 'level=error\|panicked' "$folder/log"; then
    grep 'level=error\|panicked' "$folder/log" >&2
    exit 1
fi
