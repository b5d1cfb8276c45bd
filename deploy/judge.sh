#!/usr/bin/env bash
# The second step of action.yml: both sides become events, then `streamer gate` or `streamer compare` judges.
# Reads the action's inputs from the environment. Ends with the verdict's exit code.
set -euo pipefail

work=$(mktemp -d "$RUNNER_TEMP/streamer-judge.XXXXXX")
comment="$work/comment.md"

# Until the token comes again, nothing that is printed is a command to the runner: names in results are hostile.
token="end-$(basename "$work")-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')"
echo "::stop-commands::$token"
trap 'echo "::$token::"' EXIT

# events SIDE PATH: the file of events of one side. A directory is converted, a file is taken as it is.
# Leaves a file `unread` behind if something in the directory could not be read.
events() {
  if [ ! -d "$2" ]; then
    echo "$2"
    return
  fi
  if ! "$STREAMER" convert --harness "$HARNESS" -- "$2" > "$work/$1.ndjson"; then
    echo "$1: something in $2 could not be read, see above" >&2
    touch "$work/unread"
  fi
  echo "$work/$1.ndjson"
}

candidate=$(events candidate "$CANDIDATE")
baseline=$([ -z "$BASELINE" ] || events baseline "$BASELINE")
code=0

[ "$MODE$baseline" != compare ] || MODE="compare without a baseline"

case "$MODE" in
  gate)
    asked=(--question "$QUESTION" --metric "$METRIC" --max-drop "$MAX_DROP" --markdown "$comment")
    [ -z "$baseline" ] || asked+=(--against "$baseline${BASELINE_AGENT:+/$BASELINE_AGENT}")
    [ -z "$TARGET" ] || asked+=(--target "$TARGET")
    "$STREAMER" gate "${asked[@]}" -- "$candidate${CANDIDATE_AGENT:+/$CANDIDATE_AGENT}" || code=$?
    ;;
  compare)
    asked=(--files --metric "$METRIC" --tolerance "$MAX_DROP")
    [ -z "$BASELINE_AGENT" ] || asked+=(--a-agent "$BASELINE_AGENT")
    [ -z "$CANDIDATE_AGENT" ] || asked+=(--b-agent "$CANDIDATE_AGENT")
    "$STREAMER" compare "${asked[@]}" -- "$baseline" "$candidate" > "$work/compared" 2>&1 || code=$?
    cat "$work/compared"
    # An indented block, which no text in it can end.
    { echo "A is the baseline, B the candidate."; echo; sed 's/^/    /' "$work/compared"; } > "$comment"
    ;;
  *)
    echo "mode is $MODE; it must be gate or compare, and compare needs a baseline" >&2
    code=2
    ;;
esac

# Results that could not be read may be the failures. What is said without them is no verdict.
if [ -e "$work/unread" ] && [ "$code" -le 1 ]; then
  echo "Undecided: some results could not be read. What stands above is without them."
  rm -f "$comment"
  code=3
fi

[ -s "$comment" ] || echo "No verdict: the log of this step says why." > "$comment"
cat "$comment" >> "$GITHUB_STEP_SUMMARY"
case $code in
  0) verdict=pass ;;
  1) verdict=fail ;;
  *) verdict=undecided ;;
esac
{
  echo "verdict=$verdict"
  echo "exit-code=$code"
  echo "markdown=$comment"
} >> "$GITHUB_OUTPUT"
exit "$code"
