# shellcheck shell=bash
# Completes the words of shardlab in bash: source <(shardlab completion bash)

_shardlab() {
  # Bash also splits words at the letters of COMP_WORDBREAKS, such as "=" and ":". Pieces without a blank
  # between them are one word of shardlab's.
  local line=${COMP_LINE:0:COMP_POINT} words=() blanks piece i
  for ((i = 0; i <= COMP_CWORD; i++)); do
    blanks=${line%%[! $'\t']*}
    line=${line#"$blanks"}
    piece=${COMP_WORDS[i]}
    ((i < COMP_CWORD)) || piece=$line
    line=${line#"$piece"}
    if ((i == 0)) || [[ -n $blanks ]]; then
      words+=("$piece")
    else
      words[${#words[@]} - 1]+=$piece
    fi
  done
  local current=${words[${#words[@]} - 1]} program=${words[0]/#\~/$HOME}
  for i in "${!words[@]}"; do
    case ${words[i]} in
      \"*\" | \'*\') words[i]=${words[i]:1:${#words[i]}-2} ;;
      \"* | \'*) words[i]=${words[i]:1} ;;
    esac
  done

  local answer
  answer=$("$program" __complete "${words[@]:1}" 2> /dev/null) || return 0
  # Bash replaces only what follows the last letter at which it splits.
  local kept='' letters=''
  [[ $COMP_WORDBREAKS != *=* ]] || letters+='='
  [[ $COMP_WORDBREAKS != *:* ]] || letters+=':'
  [[ -z $letters ]] || kept=${current%"${current##*[$letters]}"}

  COMPREPLY=()
  while IFS= read -r line; do
    case $line in
      :words) ;;
      :files)
        compopt -o filenames 2> /dev/null
        while IFS= read -r piece; do
          COMPREPLY+=("$piece")
        done < <(compgen -f -- "${current#--*=}")
        ;;
      *)
        line=${line%%$'\t'*}
        COMPREPLY+=("${line#"$kept"}")
        ;;
    esac
  done <<< "$answer"
}

complete -F _shardlab shardlab
