# install_pages(COMPONENT FOLDER): manual pages and the scripts of the shells, which the program that is installed writes,
# below a folder of the component.
function(install_pages component share)
  set(written ${PROJECT_BINARY_DIR}/generated/installed-${component})
  install(CODE "
    file(REMOVE_RECURSE \"${written}\")
    file(MAKE_DIRECTORY \"${written}\")
    execute_process(COMMAND \"$<TARGET_FILE:shardlab>\" __man \"${written}/man1\" COMMAND_ERROR_IS_FATAL ANY)
    foreach(shell bash fish zsh)
      execute_process(COMMAND \"$<TARGET_FILE:shardlab>\" completion \${shell}
        OUTPUT_FILE \"${written}/shardlab.\${shell}\" COMMAND_ERROR_IS_FATAL ANY)
    endforeach()" COMPONENT ${component})
  install(DIRECTORY ${written}/man1/ DESTINATION ${share}/man/man1 COMPONENT ${component})
  install(FILES ${written}/shardlab.bash DESTINATION ${share}/bash-completion/completions RENAME shardlab
    COMPONENT ${component})
  install(FILES ${written}/shardlab.fish DESTINATION ${share}/fish/vendor_completions.d COMPONENT ${component})
  # Debian's zsh reads the first of these folders below /usr, and the second below /usr/local.
  foreach(folder vendor-completions site-functions)
    install(FILES ${written}/shardlab.zsh DESTINATION ${share}/zsh/${folder} RENAME _shardlab COMPONENT ${component})
  endforeach()
endfunction()
