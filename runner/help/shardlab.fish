# Completes the words of shardlab in fish: shardlab completion fish | source

function __shardlab_complete
    set -l words (commandline --tokenize --cut-at-cursor --current-process)
    set -l current (commandline --current-token --cut-at-cursor)
    set -l answer (command $words[1] __complete $words[2..-1] "$current" 2>/dev/null)
    for line in $answer
        switch $line
            case ':words'
            case ':files'
                # Of "--out=rep" the shell completes "rep"; what stands before it is kept.
                set -l option (string match --regex --groups-only -- '^(--[^=]+=)' "$current")
                set -l start (string replace --regex -- '^--[^=]+=' '' "$current")
                for path in (__fish_complete_path "$start")
                    echo "$option$path"
                end
            case '*'
                echo $line
        end
    end
end

complete --command shardlab --no-files --arguments '(__shardlab_complete)'
